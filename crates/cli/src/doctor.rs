//! `sabir doctor`: why an agent cannot be used, or what it can be used for.
//!
//! From the name of the host to the last event of a stream everything is looked at in the order in which a client needs
//! it; what stands on something that is missing is skipped with the reason. What cannot be known is skipped too: a line
//! says `fail` only where a correct client would fail.
//!
//! | Module | What it contains |
//! |---|---|
//! | `checks` | the table of everything that is looked at |
//! | `report` | findings, and how they are shown |
//! | `host`, `card` | the way to the host; the card |
//! | `probe` | questions, and everything about their answers |
//! | `access`, `interface` | credentials; one interface |
//! | `stream`, `running_task`, `push`, `receiver` | streams; subscribing and cancelling; webhooks |

mod access;
mod card;
mod checks;
mod host;
mod interface;
mod probe;
mod push;
mod receiver;
mod report;
mod running_task;
mod stream;

use crate::Invocation;
use crate::call::{Session, tls};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Format;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::settings::duration;
use clap::Args;
use probe::AnswerMeaning;
use report::DoctorReport;
use sabir_client::{
    Agent, AgentReference, Client, Credentials, DiscoveredCard, Egress, Error, Probe, Timeouts, VersionPolicy,
};
use sabir_proto::{CancelTask, TaskRef, Tenant};
use sabir_wire::Dialect;
use sabir_wire::card::CardSchema;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// How long an examination may take unless `--timeout` says otherwise.
const DOCTOR_TIMEOUT: Duration = Duration::from_secs(120);
/// The shortest timeout of a question that costs the agent no work, however short the gap is.
const ANSWER_MIN: Duration = Duration::from_secs(5);
/// The bounds of the time to connect, whatever the gap is.
const CONNECT_MIN: Duration = Duration::from_secs(2);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How many interfaces of a card are looked at.
const INTERFACES_MAX: usize = 8;

/// Find out why an agent cannot be used, from DNS to the last event of a stream.
///
/// One line for each thing that is looked at: ok, warn, fail or skip, the reason, and what helps. Exit status 1 if anything
/// fails. The credentials of the usual settings are used, and shown to the agent alone.
#[derive(Debug, Args)]
#[command(
    after_help = "What is sent, to each interface of the card (eight at most): a few questions about tasks that do \
    not exist,\nthree or four messages with the text \"Hello from sabir doctor. This is a test; a short answer is \
    enough.\",\nof which one is cancelled and one has a webhook on this machine if the agent is here too.\n\n\
    Examples:\n  \
    sabir doctor https://agent.example\n  \
    sabir doctor localhost:4000 --gap 2s\n  \
    sabir doctor https://agent.example --json | jq '.checks[] | select(.status == \"fail\")'"
)]
pub(crate) struct Doctor {
    /// The agent: a host, a URL or a file. In place of --agent-card.
    #[arg(value_name = "URL")]
    agent: Option<String>,
    /// One JSON object with all lines, as -o json.
    #[arg(long)]
    json: bool,
    /// The longest silence that is healthy: before an answer, within a stream and after it, before a notification.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    gap: Duration,
    /// Also write the report to a new file, as JSON and without the name of the host.
    #[arg(long, value_name = "FILE")]
    share: Option<PathBuf>,
}

/// One examination.
struct Examination<'a> {
    report: &'a mut DoctorReport,
    doctor: &'a Doctor,
    session: &'a Session,
    probe: Probe,
    /// Sends the credentials for this agent, as soon as they are known.
    client: Client,
    /// Sends no credentials.
    anonymous: Client,
    /// There are credentials to send.
    has_credentials: bool,
    gap: Duration,
    /// Whether webhooks work, once they were tried.
    push_works: Option<bool>,
}

impl Verb for Doctor {
    fn run(self, mut invocation: Invocation) -> Outcome {
        if self.json {
            invocation.out.format = Format::Json;
        }
        let session = Session::new(invocation)?;
        let reference = match &self.agent {
            Some(text) => AgentReference::parse(text).map_err(usage_problem)?,
            None => session.reference()?,
        };
        if let Some(file) = self.share.as_deref().filter(|file| file.exists()) {
            return Err(exists_problem(file).into());
        }
        let anonymous = self.client(&session, None).map_err(usage_problem)?;
        let limit = session.settings.timeout.copied().unwrap_or(DOCTOR_TIMEOUT);
        let mut report = DoctorReport::new(reference.to_string(), session.out.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Problem::internal(format!("cannot start: {error}")))?;
        let progress = report.progress();
        let ended = runtime.block_on(async {
            let exam = Examination {
                report: &mut report,
                doctor: &self,
                session: &session,
                probe: anonymous.probe(),
                client: anonymous.clone(),
                anonymous,
                has_credentials: false,
                gap: self.gap,
                push_works: None,
            };
            tokio::select! {
                done = tokio::time::timeout(limit, exam.run(&reference)) => done.map_err(|_| Exit::Timeout),
                _ = tokio::signal::ctrl_c() => Err(Exit::Interrupted),
                () = progress => Err(Exit::Interrupted),
            }
        });
        session.out.clear_progress();
        match ended {
            Ok(()) => {}
            Err(Exit::Timeout) => {
                report.skip_remaining(format!("{} s were not enough; see --timeout", limit.as_secs()))
            }
            Err(exit) => return Ok(exit),
        }
        let (json, fails) = report.finish()?;
        if let Some(file) = &self.share {
            write_shared_report(file, &json, &reference)?;
        }
        Ok(if fails { Exit::Failed } else { Exit::Done })
    }
}

impl Doctor {
    /// A client that speaks whatever the agent does, and keeps nothing. It sends these credentials, or none.
    fn client(&self, session: &Session, shown: Option<Credentials>) -> Result<Client, Error> {
        let connect = self.gap.clamp(CONNECT_MIN, CONNECT_MAX);
        let settings = &session.settings;
        let mut tls = tls(settings)?;
        if shown.is_none() {
            tls.identity = None;
        }
        // Service parameters may hold secrets, so they are sent with the credentials or not at all.
        let parameters = if shown.is_some() { settings.svc_param.list() } else { &[] };
        let mut builder = Client::builder()
            .egress(Egress::anywhere())
            .tls(tls)
            .timeouts(Timeouts { connect, ..Timeouts::default() })
            .version(VersionPolicy::Any)
            .credentials(shown.unwrap_or_default())
            .extensions(settings.extension.list().to_vec());
        // Otherwise there is no observer: more calls are made than a user wants to read about.
        if settings.debug.is_on() || settings.curl.is_on() {
            builder = builder.observer(session.observer.clone());
        }
        for parameter in parameters {
            builder = builder.header(&parameter.name, &parameter.value);
        }
        builder.build()
    }
}

fn usage_problem(error: Error) -> Problem {
    Problem::usage(error.to_string()).hint("sabir doctor --help")
}

impl Examination<'_> {
    async fn run(mut self, reference: &AgentReference) {
        if let AgentReference::Origin(url) | AgentReference::Url(url) = reference
            && host::check(&mut self, url).await.is_none()
        {
            return;
        }
        let Some(found) = card::find(&mut self, reference).await else { return };
        let interfaces = card::interfaces(&mut self, &found);
        self.use_credentials(&found).await;
        for (single, chosen) in interfaces.into_iter().take(INTERFACES_MAX) {
            interface::check(&mut self, single, &chosen).await;
        }
    }

    /// From here on sends the credentials for this agent, if there are any.
    async fn use_credentials(&mut self, found: &DiscoveredCard) {
        let settings = &self.session.settings;
        // Stored tokens that cannot be read are a matter for `auth status`.
        let credentials = self.session.credentials(found).await.unwrap_or_default();
        let certificate = settings.client_cert.text().is_some();
        self.has_credentials = !credentials.is_empty() || !settings.svc_param.list().is_empty() || certificate;
        if let Ok(client) = self.doctor.client(self.session, Some(credentials)) {
            self.client = client;
        }
    }

    /// The timeout of a question that costs the agent no work.
    fn answer_timeout(&self) -> Duration {
        self.gap.max(ANSWER_MIN)
    }

    /// Waits for the answer to such a question.
    async fn within_timeout<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, AnswerMeaning> {
        match tokio::time::timeout(self.answer_timeout(), question).await {
            Ok(answer) => answer.map_err(probe::of_error),
            Err(_) => Err(AnswerMeaning::TimedOut),
        }
    }

    /// Whether a server accepts connections there.
    async fn accepts_connections(&self, url: &Url) -> bool {
        match self.probe.addresses(url).await {
            Ok(addresses) => self.probe.connect(&addresses).await.is_ok(),
            Err(_) => false,
        }
    }

    fn gap_text(&self) -> String {
        format!("{} s", self.gap.as_secs_f32())
    }

    /// The agent of a card, called without credentials whatever the card asks for.
    fn anonymous_agent(&self, single: &DiscoveredCard) -> Result<Agent, Error> {
        let mut open = single.clone();
        open.card.security_requirements.clear();
        self.anonymous.agent(open)
    }

    /// The same agent at the same address in another dialect.
    fn agent_in_dialect(&self, agent: &Agent, dialect: Dialect) -> Option<Agent> {
        let mut found = agent.discovered_card().clone();
        found.form = CardSchema::of(dialect);
        found.card.supported_interfaces.iter_mut().for_each(|i| i.protocol_version = dialect.name().into());
        self.client.agent(found.clone()).or_else(|_| self.anonymous_agent(&found)).ok()
    }

    /// Cancels a task whose result is not needed. A failure does not matter.
    async fn cancel_quietly(&self, agent: &Agent, id: TaskRef) {
        let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
        _ = self.within_timeout(agent.cancel(request)).await;
    }
}

/// Writes the report for others to read: without the name of the host and its addresses.
fn write_shared_report(file: &Path, json: &str, reference: &AgentReference) -> Result<(), Stop> {
    let host = match reference {
        AgentReference::Origin(url) | AgentReference::Url(url) => url.host_str().map(str::to_owned),
        AgentReference::File(_) => None,
    };
    let mut text = crate::output::indented(json) + "\n";
    if let Some(host) = host {
        text = text.replace(&host, "agent.example");
    }
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    let written = made.and_then(|mut made| std::io::Write::write_all(&mut made, text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists_problem(file).into(),
        _ => Problem::internal(format!("cannot write {}: {error}", file.display())).into(),
    })
}

fn exists_problem(file: &Path) -> Problem {
    Problem::new(ErrorCode::Vendor("SABIR_ERR_EXISTS"), format!("{} is there already", file.display()))
        .hint("name another file for --share")
}
