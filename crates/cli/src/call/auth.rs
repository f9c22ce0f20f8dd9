//! `sabir auth …`: logs in to agents, and keeps the tokens.

mod flow;
mod stored_tokens;

pub(crate) use stored_tokens::{AuthLogout, AuthStatus};

use super::target::AgentArgument;
use super::{InterruptHandling, Session, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::render::Fields;
use clap::{Args, ValueEnum};
use flow::{LoginResult, LoginScheme};
use sabir_client::oauth::{self, WallClock};
use sabir_client::tokens::{StoredToken, TokenKey, TokenStore};
use sabir_client::{DiscoveredCard, Secret, tokens};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time that another process gets to renew a token for which this one waits.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Log in to an agent by OAuth or OpenID Connect, and keep the token for later calls.
///
/// The card says where; the client is registered there by its owner. The token is kept in a file that only its owner can
/// read, is shown to this agent alone, and is renewed before it expires.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir auth login -a https://agent.example --client-id my-cli\n  \
    A2ACLI_CLIENT_SECRET=… sabir auth login --flow client-credentials --client-id robot --scope read")]
pub(crate) struct AuthLogin {
    #[command(flatten)]
    target: AgentArgument,
    /// How to log in; told by the card where it offers one way only.
    #[arg(long, value_name = "FLOW")]
    flow: Option<Flow>,
    /// The security scheme of the card.
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// What to ask for; repeatable.
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
}

/// Ways to get a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flow {
    /// A code is typed on any device with a browser.
    DeviceCode,
    /// The client logs in as itself, without a user.
    ClientCredentials,
    /// A browser on this machine; needs a terminal.
    AuthorizationCode,
    /// OpenID Connect.
    Oidc,
}

impl Flow {
    const fn name(self) -> &'static str {
        match self {
            Self::DeviceCode => "device-code",
            Self::ClientCredentials => "client-credentials",
            Self::AuthorizationCode => "authorization-code",
            Self::Oidc => "oidc",
        }
    }
}

impl Verb for AuthLogin {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl AuthLogin {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let found = session.require_trust(session.card().await?).await?.into_found();
        let scheme = self.scheme(session, &found)?;
        let Some(client_id) = session.settings.client_id.text() else {
            return Err(Problem::usage("no client id was given; it is given out by the owner of the agent")
                .hint(session.resume().command("auth login") + " --client-id <id>")
                .into());
        };
        let secret = session.settings.client_secret.text().map(Secret::new);
        let client = oauth::OAuthClient::new(&session.client, &WallClock, client_id, secret.as_ref());
        let LoginResult { token, token_url, refresh_url, subject } =
            scheme.log_in(session, &client, &self.scope).await.map_err(|error| login_problem(&error, session))?;
        hide_token(session, &token);
        let key = TokenKey {
            origin: origin(session, &found)?,
            scheme: scheme.scheme.clone(),
            client_id: client_id.to_owned(),
        };
        let stored = StoredToken { key, token, flow: scheme.flow.name().to_owned(), token_url, refresh_url };
        let path = store()?.save(&stored).map_err(|error| store_problem(&error))?;
        report(session, &stored, &path.display().to_string(), subject.as_deref())
    }

    /// The scheme to log in by: the one that was named, or the only one that can be.
    fn scheme(&self, session: &Session, found: &DiscoveredCard) -> Result<LoginScheme, Problem> {
        let all = flow::login_schemes(&found.card);
        let fits = |one: &&LoginScheme| {
            self.scheme.as_ref().is_none_or(|name| *name == one.scheme) && self.flow.is_none_or(|flow| flow == one.flow)
        };
        let fitting: Vec<&LoginScheme> = all.iter().filter(fits).collect();
        let list = |some: &[&LoginScheme]| {
            some.iter().map(|one| format!("{} ({})", one.scheme, one.flow.name())).collect::<Vec<_>>().join(", ")
        };
        match fitting.as_slice() {
            [one] => Ok((*one).clone()),
            [] if all.is_empty() => Err(Problem::usage("the card declares no scheme that can be logged in to")
                .hint("set A2ACLI_BEARER or A2ACLI_API_KEY to a credential of the agent")),
            [] => {
                let known: Vec<&LoginScheme> = all.iter().collect();
                Err(Problem::usage(format!("no such scheme; the card has {}", list(&known)))
                    .hint(session.resume().command("card get")))
            }
            several => Err(Problem::usage(format!("the card has several schemes: {}", list(several)))
                .hint(session.resume().command(&format!("auth login --scheme {}", several[0].scheme)))),
        }
    }
}

/// Reports a login, without the token itself.
fn report(session: &Session, stored: &StoredToken, path: &str, subject: Option<&str>) -> Outcome {
    if session.out.is_json() {
        let document = json!({
            "agent": stored.key.origin,
            "scheme": stored.key.scheme,
            "flow": stored.flow,
            "clientId": stored.key.client_id,
            "scopes": stored.token.scopes,
            "expires": stored.token.expires,
            "subject": subject,
            "store": path,
        });
        session.out.document(&document.to_string())?;
        return Ok(Exit::Done);
    }
    let mut fields = Fields::new();
    fields.field("Agent", &stored.key.origin);
    fields.field("Scheme", &stored.key.scheme);
    fields.field("Flow", &stored.flow);
    fields.field("Client ID", &stored.key.client_id);
    fields.maybe("Subject", subject);
    fields.maybe("Scopes", Some(&stored.token.scopes.join(" ")));
    fields.field("Expires", &stored_tokens::expiry_text(stored.token.expires, unix_seconds()));
    fields.field("Stored", path);
    session.out.fields(fields)?;
    Ok(Exit::Done)
}

/// Tells the redactor the secrets of a token, so that no output shows them.
fn hide_token(session: &Session, token: &oauth::Token) {
    session.out.redactor.learn(token.access.expose());
    if let Some(refresh) = &token.refresh {
        session.out.redactor.learn(refresh.expose());
    }
}

/// Why there is no token, in the words of the envelope.
fn login_problem(error: &oauth::OAuthError, session: &Session) -> Stop {
    let code = match error {
        oauth::OAuthError::NoAnswer { .. } => ErrorCode::Unreachable,
        oauth::OAuthError::TimedOut(_) => ErrorCode::Timeout,
        oauth::OAuthError::Missing(_) | oauth::OAuthError::BadUrl { .. } => ErrorCode::CardInvalid,
        oauth::OAuthError::Listen(_) => ErrorCode::Internal,
        _ => ErrorCode::AuthFailed,
    };
    let hint = match error {
        oauth::OAuthError::NoAnswer { .. } => "check the address of the authority in the card".to_owned(),
        oauth::OAuthError::NeedsBrowser => "run it at a terminal, or use a client that may use device codes".to_owned(),
        oauth::OAuthError::Missing(_) | oauth::OAuthError::BadUrl { .. } => {
            session.resume().command("card get --validate")
        }
        _ => format!("try again: {} …", session.resume().command("auth login")),
    };
    let mut message = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        message += &format!(": {cause}");
    }
    Problem::new(code, message).hint(hint).into()
}

fn store_problem(error: &tokens::TokenStoreError) -> Problem {
    Problem::internal(format!("the token cannot be kept: {error}")).hint("sabir auth status")
}

/// The store of tokens, in the user's configuration directory.
fn store() -> Result<TokenStore, Problem> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    let base = base.ok_or_else(|| Problem::usage("there is no home to keep tokens in").hint("set HOME"))?;
    Ok(TokenStore::new(base.join("sabir").join("tokens")))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The origin that a token belongs to: that of the card's URL, or, for a card in a file, of the interface that is
/// called.
fn origin(session: &Session, found: &DiscoveredCard) -> Result<String, Stop> {
    let url = match &found.url {
        Some(url) => url.clone(),
        None => session.choose(found).map_err(|error| session.problem(error, Some(found)))?.url,
    };
    Ok(url.origin().ascii_serialization())
}

impl Session {
    /// The stored tokens for this agent, by scheme. Tokens that are due are renewed.
    pub(crate) async fn stored_tokens(&self, found: &DiscoveredCard) -> Result<Vec<(String, Secret)>, Stop> {
        let login_schemes = flow::login_schemes(&found.card);
        // A credential that was given for this run takes precedence over stored tokens.
        if login_schemes.is_empty() || self.settings.bearer.text().is_some() {
            return Ok(Vec::new());
        }
        let Ok(store) = store() else { return Ok(Vec::new()) };
        let origin = origin(self, found)?;
        let listed = store.list().map_err(|error| store_problem(&error))?;
        let mut usable = Vec::new();
        for stored in listed.into_iter().flatten().filter(|stored| stored.key.origin == origin) {
            let known = login_schemes.iter().any(|one| one.scheme == stored.key.scheme);
            let client = self.settings.client_id.text().is_none_or(|id| id == stored.key.client_id);
            if known && client && !usable.iter().any(|(scheme, _)| *scheme == stored.key.scheme) {
                usable.push((stored.key.scheme.clone(), self.renewed_token(&store, &stored).await?));
            }
        }
        Ok(usable)
    }

    async fn renewed_token(&self, store: &TokenStore, stored: &StoredToken) -> Result<Secret, Stop> {
        let secret = self.settings.client_secret.text().map(Secret::new);
        let client = oauth::OAuthClient::new(&self.client, &WallClock, &stored.key.client_id, secret.as_ref());
        let renew = async |stale: StoredToken| {
            // A token that cannot be renewed is used up to its last minute.
            if stale.token.refresh.is_none() && stale.token.expires.is_none_or(|expires| expires > unix_seconds()) {
                return Ok(stale.token);
            }
            let bad =
                || oauth::OAuthError::BadUrl { what: "the token endpoint", value: stale.renewal_url().to_owned() };
            let url = stale.renewal_url().parse().map_err(|_| bad())?;
            if stale.token.refresh.is_none() && stale.flow == Flow::ClientCredentials.name() && secret.is_some() {
                return client.client_credentials(&url, &stale.token.scopes).await;
            }
            client.refresh(&url, &stale.token).await
        };
        let login = || {
            let scheme = crate::render::shell(&stored.key.scheme);
            self.resume().command(&format!(
                "auth login --scheme {scheme} --client-id {}",
                crate::render::shell(&stored.key.client_id)
            ))
        };
        match store.usable_token(&stored.key, unix_seconds(), RENEWAL_TIMEOUT, renew).await {
            Ok(Some(fresh)) => {
                if let Some(error) = fresh.unsaved {
                    self.out.warn(&format!("the token was renewed and cannot be kept: {error}"));
                }
                hide_token(self, &fresh.stored.token);
                Ok(fresh.stored.token.access)
            }
            Ok(None) => Err(Problem::new(ErrorCode::CredentialsMissing, "the token is gone").hint(login()).into()),
            Err(tokens::UsableTokenError::Store(error)) => Err(store_problem(&error).into()),
            Err(tokens::UsableTokenError::Renewal(oauth::OAuthError::NoAnswer { url, .. })) => {
                let message = format!("the token has expired, and {url} does not answer");
                Err(Problem::new(ErrorCode::Unreachable, message).hint(login()).into())
            }
            Err(tokens::UsableTokenError::Renewal(error)) => {
                Err(Problem::new(ErrorCode::AuthFailed, format!("the token could not be renewed: {error}"))
                    .hint(login())
                    .into())
            }
        }
    }
}
