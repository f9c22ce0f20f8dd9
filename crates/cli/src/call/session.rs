//! A session: one run of a command against one agent, from the settings to the connected agent.
//!
//! This is the only place that makes the client from the settings, applies the timeout, handles Ctrl-C, and warns about
//! connections that are not secure.

use super::explain::explain;
use super::observer::CallObserver;
use super::resume::Resume;
use super::signer::signer;
use super::trust::TrustedCard;
use crate::Invocation;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::settings::{SettingValue, Settings};
use sabir_client::{
    Agent, AgentReference, Client, ClientBuilder, Credentials, DiscoveredCard, Egress, Error, PollSchedule, Secret,
    Tls, VersionPolicy,
};
use sabir_proto::AgentCard;
use sabir_proto::card::SecurityScheme;
use sabir_wire::Dialect;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The time that a user at a terminal has to press Ctrl-C a second time.
const SECOND_INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a cancel after Ctrl-C may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// One run of a command.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) out: Output,
    /// The command, as it is typed.
    pub(crate) path: &'static str,
    pub(crate) client: Client,
    pub(crate) observer: Arc<CallObserver>,
    agent: OnceLock<Agent>,
    /// The URL of the agent to which the task was handed.
    handed_to: Mutex<Option<String>>,
}

/// Which part of the program handles Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptHandling {
    /// The session: it ends the command, the task goes on, and a note says how to come back to it.
    Detach,
    /// The command itself.
    ByCommand,
}

/// Runs a command to its end, its timeout or Ctrl-C, whichever comes first.
pub(crate) fn run_session(
    invocation: Invocation,
    interrupts: InterruptHandling,
    work: impl AsyncFnOnce(&Session) -> Outcome,
) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::internal(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(async {
        let session = Session::new(invocation)?;
        // A command that handles Ctrl-C also applies the timeout itself, to each turn.
        let limit = session.settings.timeout.copied().filter(|_| interrupts == InterruptHandling::Detach);
        let limited = async {
            match limit {
                None => work(&session).await,
                Some(limit) => match tokio::time::timeout(limit, work(&session)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(session.timeout_problem(limit).into()),
                },
            }
        };
        let ended = tokio::select! {
            biased;
            outcome = limited => outcome,
            () = wait_for_interrupt(interrupts) => session.detach().await,
            () = session.observer.show_progress(&session.out), if interrupts == InterruptHandling::Detach => Ok(Exit::Done),
        };
        session.out.clear_progress();
        ended
    });
    // A thread may still be reading standard input, which nothing can interrupt.
    runtime.shutdown_background();
    outcome
}

async fn wait_for_interrupt(interrupts: InterruptHandling) {
    match interrupts {
        InterruptHandling::Detach if tokio::signal::ctrl_c().await.is_ok() => {}
        InterruptHandling::Detach | InterruptHandling::ByCommand => std::future::pending().await,
    }
}

impl Session {
    /// Prepares a run. Nothing is sent.
    pub(crate) fn new(Invocation { settings, out, path }: Invocation) -> Result<Self, Stop> {
        let observer = Arc::new(CallObserver::new(out.clone(), &settings));
        // Cards, keys and files are fetched without credentials.
        let client =
            client(&settings, &observer, Credentials::default()).map_err(|error| usage_problem(&error, path))?;
        if settings.insecure.is_on() {
            out.warn("--insecure: certificates are not checked, so anyone on the network path can pose as the agent");
        }
        Ok(Self { settings, out, path, client, observer, agent: OnceLock::new(), handed_to: Mutex::default() })
    }

    /// The agent that was named.
    pub(crate) fn reference(&self) -> Result<AgentReference, Problem> {
        let Some(text) = self.settings.agent_card.text() else {
            return Err(Problem::usage("no agent was given")
                .hint(format!("sabir {} --agent-card https://agent.example, or set A2ACLI_AGENT_CARD", self.path)));
        };
        AgentReference::parse(text).map_err(|error| usage_problem(&error, self.path))
    }

    /// Reads the card of the agent, without credentials.
    pub(crate) async fn card(&self) -> Result<DiscoveredCard, Stop> {
        let found = self.client.card(&self.reference()?).await.map_err(|error| self.problem(error, None))?;
        for scheme in found.card.security_schemes.values() {
            if let sabir_proto::card::SecurityScheme::ApiKey { name, .. } = scheme {
                self.out.redactor.learn_name(name);
            }
        }
        Ok(found)
    }

    /// Where a card was read, for people.
    pub(crate) fn card_location(&self, found: &DiscoveredCard) -> String {
        match &found.url {
            Some(url) => self.out.redactor.url(url.as_str()),
            None => self.settings.agent_card.text().unwrap_or_default().to_owned(),
        }
    }

    /// Connects to the agent: reads its card and checks it by `--card-trust`.
    pub(crate) async fn connect(&self) -> Result<Agent, Stop> {
        let found = self.card().await?;
        self.connect_to(self.require_trust(found).await?).await
    }

    /// Connects to the agent of a card that was read before.
    pub(crate) async fn connect_to(&self, believed: TrustedCard) -> Result<Agent, Stop> {
        let found = believed.into_found();
        let credentials = self.credentials(&found).await?;
        let shows = !credentials.is_empty();
        let client =
            client(&self.settings, &self.observer, credentials).map_err(|error| usage_problem(&error, self.path))?;
        let kept = found.clone();
        let agent = client.agent(found).map_err(|error| self.problem(error, Some(&kept)))?;
        self.note_older_version(&agent);
        if shows && self.settings.insecure.is_on() && agent.chosen_interface().url.scheme() == "https" {
            self.out.warn(
                "A CREDENTIAL IS SENT OVER A CONNECTION WHOSE CERTIFICATE IS NOT CHECKED (--insecure): \
                 any server that answers gets it",
            );
        }
        self.observer.debug(&format!(
            "chose {} {} {}",
            agent.binding(),
            agent.interface().protocol_version,
            agent.chosen_interface().url
        ));
        _ = self.agent.set(agent.clone());
        Ok(agent)
    }

    /// Prints a note if the agent is called in an older version than 1.0 and the user named no version.
    fn note_older_version(&self, agent: &Agent) {
        if self.settings.a2a_version.text().is_none() && agent.dialect() != Dialect::NEWEST {
            let version = agent.dialect();
            self.out.note(&format!("the agent offers no A2A 1.0; calling it in {version} (--a2a-version 1.0 refuses)"));
        }
    }

    /// A client that says it follows handoffs.
    pub(crate) fn handoff_client(&self, credentials: Credentials) -> Result<Client, Error> {
        let mut uris = self.settings.extension.list().to_vec();
        uris.push(sabir_proto::HANDOFF.to_owned());
        builder(&self.settings, credentials)?.extensions(uris).observer(self.observer.clone()).build()
    }

    /// Connects to the agent with a client that says it follows handoffs.
    pub(crate) async fn connect_following(&self) -> Result<Agent, Stop> {
        let found = self.card().await?;
        let found = self.require_trust(found).await?.into_found();
        let credentials = self.credentials(&found).await?;
        let client = self.handoff_client(credentials).map_err(|error| usage_problem(&error, self.path))?;
        let kept = found.clone();
        let agent = client.agent(found).map_err(|error| self.problem(error, Some(&kept)))?;
        _ = self.agent.set(agent.clone());
        Ok(agent)
    }

    /// The interface of a card that would be called.
    pub(crate) fn choose(&self, found: &DiscoveredCard) -> Result<sabir_client::ChosenInterface, Error> {
        sabir_client::choose_interface(found, self.settings.transport.list(), version(&self.settings)?)
    }

    /// Connects without the observer, unless a log was asked for: for commands that make more calls than a user wants
    /// to read about.
    pub(crate) async fn unobserved_agent(&self, believed: TrustedCard) -> Result<Agent, Stop> {
        if self.settings.debug.is_on() || self.settings.curl.is_on() {
            return self.connect_to(believed).await;
        }
        let found = believed.into_found();
        let credentials = self.credentials(&found).await?;
        let client = builder(&self.settings, credentials).and_then(ClientBuilder::build);
        let kept = found.clone();
        let agent = client.and_then(|client| client.agent(found)).map_err(|error| self.problem(error, Some(&kept)))?;
        self.note_older_version(&agent);
        Ok(agent)
    }

    /// The credentials for the agent of this card: those given for this run, else those stored for it.
    pub(crate) async fn credentials(&self, found: &DiscoveredCard) -> Result<Credentials, Stop> {
        let tokens = self.stored_tokens(found).await?.into_iter().collect();
        let signer = signer(&self.settings, &self.out.redactor)?;
        let mut given = given_credentials(&self.settings);
        if let (Some(bearer), None, Some(place)) = (&given.bearer, &given.api_key, api_key_only_header(&found.card)) {
            self.out.note(&format!("the agent asks for an API key ({place}); the value of --bearer is sent as one"));
            given.api_key = Some(bearer.clone());
        }
        Ok(Credentials { tokens, signer, ..given })
    }

    /// The signer for agents that are found by their account, if an account was named.
    pub(crate) fn account_signer(&self) -> Result<Option<Arc<dyn sabir_client::RequestCredential>>, Problem> {
        super::signer::account_signer(&self.settings, &self.out.redactor)
    }

    /// A client builder with these settings, without the observer.
    pub(crate) fn builder(&self, credentials: Credentials) -> Result<ClientBuilder, Error> {
        builder(&self.settings, credentials)
    }

    /// The name of the agent, once it is known.
    pub(crate) fn agent_name(&self) -> Option<String> {
        self.agent.get().map(|agent| agent.card().name.clone())
    }

    /// A failure of the client, in the words of the envelope.
    pub(crate) fn problem(&self, error: Error, found: Option<&DiscoveredCard>) -> Problem {
        explain(error, &self.failure_context(found))
    }

    /// The same for a failure after the agent was found.
    pub(crate) fn failed(&self, error: Error) -> Problem {
        let found = self.agent.get().map(Agent::discovered_card);
        self.problem(error, found)
    }

    fn failure_context<'a>(&'a self, found: Option<&'a DiscoveredCard>) -> super::explain::FailureContext<'a> {
        super::explain::FailureContext {
            path: self.path,
            settings: &self.settings,
            found,
            task: self.observer.task(),
            resume: self.resume(),
        }
    }

    /// The commands that continue the task of this run.
    pub(crate) fn resume(&self) -> Resume {
        match &*self.handed_to.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(url) => Resume::at_agent(url),
            None => Resume::new(&self.settings),
        }
    }

    /// Sets the URL of the agent to which the task was handed.
    pub(crate) fn set_handed_to(&self, url: &str) {
        *self.handed_to.lock().unwrap_or_else(PoisonError::into_inner) = Some(url.to_owned());
    }

    /// The pause between two status checks.
    pub(crate) fn poll_pace(&self) -> PollSchedule {
        self.settings.poll_interval.copied().map_or_else(PollSchedule::default, PollSchedule::every)
    }

    /// The problem that reports the end of `--timeout`.
    pub(crate) fn timeout_problem(&self, limit: Duration) -> Problem {
        let problem = Problem::new(ErrorCode::Timeout, format!("not done after {}", format_seconds(limit)));
        match self.observer.task() {
            Some(task) => problem.hint(self.resume().wait_for_task(&task)),
            None => problem.hint(format!("allow more time: sabir {} --timeout 5m …", self.path)),
        }
    }

    /// Handles Ctrl-C: the task goes on. At a terminal a second Ctrl-C cancels it.
    async fn detach(&self) -> Outcome {
        self.out.clear_progress();
        let Some(task) = self.observer.task() else { return Ok(Exit::Interrupted) };
        self.out.note(&format!(
            "detached; the task goes on\nTask ID: {task}\nResume: {}",
            self.resume().wait_for_task(&task)
        ));
        if let (true, Some(agent)) = (self.out.is_interactive(), self.agent.get()) {
            self.out.note("Ctrl-C again cancels the task");
            let again = tokio::time::timeout(SECOND_INTERRUPT_TIMEOUT, tokio::signal::ctrl_c()).await;
            if matches!(again, Ok(Ok(()))) {
                self.cancel(agent, &task).await;
            }
        }
        Ok(Exit::Interrupted)
    }

    async fn cancel(&self, agent: &Agent, task: &str) {
        let Ok(id) = sabir_proto::TaskRef::parse(task) else { return };
        let request = sabir_proto::CancelTask { tenant: sabir_proto::Tenant::none(), id, metadata: None };
        match tokio::time::timeout(CANCEL_TIMEOUT, agent.cancel(request)).await {
            Ok(Ok(said)) => self.out.note(&format!("State: {}", said.value.status.state.name())),
            Ok(Err(error)) => self.out.warn(&format!("not cancelled: {error}")),
            Err(_) => self.out.warn("not cancelled: the agent does not answer"),
        }
    }
}

/// A client as the settings want it.
fn client(settings: &Settings, observer: &Arc<CallObserver>, credentials: Credentials) -> Result<Client, Error> {
    builder(settings, credentials)?.observer(observer.clone()).build()
}

fn builder(settings: &Settings, credentials: Credentials) -> Result<ClientBuilder, Error> {
    let mut builder = Client::builder()
        .egress(Egress::anywhere())
        .tls(tls(settings)?)
        .prefer(settings.transport.list().iter().copied())
        .version(version(settings)?)
        .credentials(credentials)
        .extensions(settings.extension.list().to_vec())
        .cache(cache_directory());
    for parameter in settings.svc_param.list() {
        builder = builder.header(&parameter.name, &parameter.value);
    }
    Ok(builder)
}

/// The header in which the card wants an API key, if it takes no bearer token at all.
fn api_key_only_header(card: &AgentCard) -> Option<String> {
    let mut place = None;
    for scheme in card.security_schemes.values() {
        match scheme {
            SecurityScheme::ApiKey { name, .. } if sabir_client::xpr::is_header(name) => {}
            // A token does not belong into a URL, where proxies log it.
            SecurityScheme::ApiKey { name, location, .. } if location == "header" => place = Some(name.clone()),
            SecurityScheme::ApiKey { .. } => {}
            SecurityScheme::HttpAuth { scheme, .. } if !scheme.eq_ignore_ascii_case("bearer") => {}
            SecurityScheme::MutualTls { .. } => {}
            SecurityScheme::HttpAuth { .. } | SecurityScheme::OAuth2 { .. } | SecurityScheme::OpenIdConnect { .. } => {
                return None;
            }
        }
    }
    place
}

/// The credentials given by flag, variable or file.
fn given_credentials(settings: &Settings) -> Credentials {
    Credentials {
        bearer: settings.bearer.text().map(Secret::new),
        api_key: settings.api_key.text().map(Secret::new),
        basic: settings
            .basic
            .text()
            .and_then(|pair| pair.split_once(':'))
            .map(|(user, password)| (user.to_owned(), Secret::new(password))),
        ..Credentials::default()
    }
}

/// The certificate authorities to trust, and the client certificate.
pub(crate) fn tls(settings: &Settings) -> Result<Tls, Error> {
    let read = |setting: &SettingValue<String>| {
        let flag = setting.given.setting.flag;
        let unreadable = |path: &str, error| Error::Usage(format!("cannot read --{flag} {path}: {error}"));
        setting.text().map(|path| std::fs::read(path).map_err(|error| unreadable(path, error))).transpose()
    };
    let identity = match (read(&settings.client_cert)?, read(&settings.client_key)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        // One file may hold both.
        (Some(both), None) => Some((both.clone(), both)),
        (None, Some(_)) => return Err(Error::Usage("--client-key needs --client-cert".into())),
        (None, None) => None,
    };
    Ok(Tls { insecure: settings.insecure.is_on(), ca: read(&settings.ca_cert)?, identity })
}

/// The versions that may be spoken: the newest that the agent offers, unless the user named one.
fn version(settings: &Settings) -> Result<VersionPolicy, Error> {
    match settings.a2a_version.text() {
        None => Ok(VersionPolicy::Newest),
        Some("auto") => Ok(VersionPolicy::Any),
        Some(name) => match name.parse() {
            Ok(dialect) => Ok(VersionPolicy::Exactly(dialect)),
            Err(_) => {
                Err(sabir_proto::Fault::VersionNotSupported(format!("this tool does not speak A2A {name}")).into())
            }
        },
    }
}

/// The directory of the card cache.
fn cache_directory() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("sabir").join("cards"))
}

/// Converts an error from before anything was sent.
fn usage_problem(error: &Error, path: &str) -> Problem {
    match error {
        Error::Fault { .. } => {
            super::explain::problem_of(error).hint("sabir card get shows which versions the agent speaks")
        }
        _ => Problem::usage(error.to_string()).hint(format!("sabir {path} --help")),
    }
}

/// A duration for people.
pub(crate) fn format_seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{}s", time.as_secs()) } else { format!("{:.1}s", time.as_secs_f64()) }
}
