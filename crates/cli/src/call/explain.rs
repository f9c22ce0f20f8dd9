//! Converts client errors into problems: the code, the message, and the next step.

use super::resume::Resume;
use crate::problem::{ErrorCode, Problem, TransportStatus};
use crate::render::shell;
use crate::settings::Settings;
use sabir_client::signature::UntrustedReason;
use sabir_client::{DiscoveredCard, Error, TransportCode, UnreachableCause};
use sabir_proto::FaultCode as Kind;
use sabir_proto::card::SecurityScheme;
use sabir_wire::card::CardSchema;
use sabir_wire::codes;

/// What is known about the run when it fails.
pub(crate) struct FailureContext<'a> {
    /// The command, as it is typed.
    pub(crate) path: &'static str,
    pub(crate) settings: &'a Settings,
    pub(crate) found: Option<&'a DiscoveredCard>,
    /// The task of this run, if it is known.
    pub(crate) task: Option<String>,
    pub(crate) resume: Resume,
}

/// A failure in the words of the envelope, with the command that helps.
pub(crate) fn explain(error: Error, context: &FailureContext<'_>) -> Problem {
    let problem = problem_of(&error);
    match next_step(&error, context) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The code and the message.
pub(crate) fn problem_of(error: &Error) -> Problem {
    let (code, transport) = match error {
        Error::Usage(_) => (ErrorCode::Usage, None),
        Error::Unreachable { .. } if unavailable_status(error).is_some() => {
            (ErrorCode::Unavailable, unavailable_status(error))
        }
        Error::Unreachable { .. } | Error::Refused(_) | Error::StreamLost { .. } => (ErrorCode::Unreachable, None),
        // The limits of a single answer are ours and fixed; the code for `--timeout` is for nothing else.
        Error::Timeout { .. } => (ErrorCode::Unreachable, None),
        Error::CardNotFound { .. } | Error::RedirectRefused { .. } => (ErrorCode::CardNotFound, None),
        Error::CardForbidden { status, .. } => (ErrorCode::CredentialsMissing, Some(TransportCode::Http(*status))),
        Error::CardInvalid { .. } | Error::CardUntrusted { .. } => (ErrorCode::CardInvalid, None),
        Error::TooLarge { what: "the agent card", .. } => (ErrorCode::CardInvalid, None),
        Error::TooLarge { .. } => (ErrorCode::Protocol("InvalidAgentResponseError"), None),
        Error::NoInterface { .. } => (ErrorCode::Internal, None),
        Error::CredentialsMissing { transport, .. } => (ErrorCode::CredentialsMissing, transport.clone()),
        Error::AuthFailed { transport, .. } => (ErrorCode::AuthFailed, transport.clone()),
        Error::Fault { fault, transport, .. } => (code_of_fault(fault.code()), transport.clone()),
        _ => (ErrorCode::Internal, None),
    };
    // A status that says that all is well is not what went wrong.
    let transport = transport.filter(|code| !matches!(code, TransportCode::Http(200..=299)));
    Problem::new(code, error.to_string()).transport(transport.map(|code| match code {
        TransportCode::JsonRpc(number) => TransportStatus::Number(number),
        TransportCode::Http(status) => TransportStatus::Number(status.into()),
        TransportCode::Grpc(name) => TransportStatus::Name(name.to_owned()),
    }))
}

/// The code of a fault: the protocol's name, or ours where the protocol has none.
const fn code_of_fault(kind: Kind) -> ErrorCode {
    match kind {
        Kind::Unavailable | Kind::AuthUnavailable => ErrorCode::Unavailable,
        Kind::Exhausted | Kind::RateLimited => ErrorCode::Vendor("SABIR_ERR_TOO_MANY_REQUESTS"),
        Kind::Unauthenticated | Kind::Forbidden => ErrorCode::AuthFailed,
        Kind::TaskNotFound
        | Kind::TaskNotCancelable
        | Kind::PushNotificationNotSupported
        | Kind::UnsupportedOperation
        | Kind::ContentTypeNotSupported
        | Kind::InvalidAgentResponse
        | Kind::ExtendedAgentCardNotConfigured
        | Kind::ExtensionSupportRequired
        | Kind::VersionNotSupported
        | Kind::ParseError
        | Kind::InvalidRequest
        | Kind::MethodNotFound
        | Kind::InvalidParams
        | Kind::Internal
        | Kind::Conflict => ErrorCode::Protocol(codes::name(kind)),
    }
}

/// How a server said that it cannot serve now, which is not the same as no answer. `None` if it did not say so.
fn unavailable_status(error: &Error) -> Option<TransportCode> {
    match error {
        Error::Unreachable { cause: UnreachableCause::GatewayAnswer, reason, .. } => {
            let is_over_http = reason.starts_with("HTTP ");
            let code = if is_over_http { TransportCode::Http(503) } else { TransportCode::Grpc("UNAVAILABLE") };
            (!is_over_http || reason.starts_with("HTTP 503")).then_some(code)
        }
        _ => None,
    }
}

/// What to type next.
fn next_step(error: &Error, context: &FailureContext<'_>) -> Option<String> {
    let again = |flag: &str| context.resume.command(&format!("{} {flag}", context.path)) + " …";
    Some(match error {
        Error::Usage(_) => format!("sabir {} --help", context.path),
        Error::Unreachable { reason, .. } if reason.contains("certificate") => {
            format!("trust its authority: {}", again("--ca-cert ca.pem"))
        }
        Error::Unreachable { .. } if unavailable_status(error).is_some() => {
            format!(
                "the agent is there and cannot serve now: try again in a moment; if it stays so: {}",
                doctor(context)
            )
        }
        Error::Unreachable { .. } | Error::Refused(_) | Error::Timeout { .. } => match &context.task {
            Some(task) => context.resume.wait_for_task(task),
            None => doctor(context),
        },
        Error::StreamLost { task, .. } => match task.as_ref().map(ToString::to_string).or(context.task.clone()) {
            Some(task) => context.resume.wait_for_task(&task),
            None => format!("it is not known whether the message arrived: {}", context.resume.command("task list")),
        },
        Error::CardNotFound { .. } => {
            "give the URL or the file of the card: sabir card get --agent-card https://…".into()
        }
        Error::CardForbidden { .. } => {
            "save the card and name the file: sabir card get --agent-card ./card.json".into()
        }
        Error::CardUntrusted { reason, .. } if matches!(**reason, UntrustedReason::Uncovered(_)) => {
            "do not use this card: anyone who passed it on may have written that part".into()
        }
        Error::CardUntrusted { .. } => {
            "say whom you trust: --trusted-keys FILE, --trusted-ca FILE or --key-registry URL; or --card-trust off"
                .into()
        }
        Error::CardInvalid { .. } | Error::TooLarge { .. } => doctor(context),
        Error::NoInterface { offered } => {
            let list = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
            format!("the card offers {list}; see it with {}", context.resume.command("card get"))
        }
        Error::CredentialsMissing { .. } => credentials_hint(context),
        Error::AuthFailed { .. } => format!("check the credential, or get a new one: {}", credentials_hint(context)),
        Error::Fault { fault, .. } => return hint_for_code(fault.code(), context, &again),
        _ => "add --debug to see what went over the wire".into(),
    })
}

fn hint_for_code(kind: Kind, context: &FailureContext<'_>, again: &dyn Fn(&str) -> String) -> Option<String> {
    Some(match kind {
        Kind::TaskNotFound => {
            format!("check the id ({}); add --debug for the agent's own reply", context.resume.command("task list"))
        }
        // The version that was derived from the card may be wrong.
        Kind::VersionNotSupported if is_version_open(context) => again("--a2a-version auto"),
        Kind::MethodNotFound | Kind::InvalidRequest
            if is_version_open(context) && context.settings.a2a_version.text().is_some() =>
        {
            "its card names no version: leave --a2a-version out, and the one it speaks is found".into()
        }
        Kind::VersionNotSupported => match offered_version(context.found) {
            Some(version) => again(&format!("--a2a-version {version}")),
            None => format!("see what it speaks: {}", context.resume.command("card get")),
        },
        Kind::ExtensionSupportRequired => match required_extension(context.found) {
            Some(uri) => again(&format!("--extension {}", shell(&uri))),
            None => again("--extension <uri>"),
        },
        Kind::UnsupportedOperation if context.path == "task subscribe" => match &context.task {
            Some(task) => context.resume.wait_for_task(task),
            None => context.resume.command("task get") + " <taskId> --wait",
        },
        Kind::UnsupportedOperation | Kind::PushNotificationNotSupported | Kind::ExtendedAgentCardNotConfigured => {
            format!("see what it offers: {}; add --debug for its own reply", context.resume.command("card get"))
        }
        Kind::TaskNotCancelable => "sabir task get shows how it stands; add --debug for the agent's own reply".into(),
        Kind::Unavailable => format!("try again in a moment; if it stays so: {}", doctor(context)),
        Kind::Exhausted | Kind::RateLimited => {
            "a limit of the agent is reached: wait before the next call; --curl shows how many a command makes".into()
        }
        _ => "add --debug for the agent's own reply".into(),
    })
}

fn is_version_open(context: &FailureContext<'_>) -> bool {
    context.found.is_some_and(DiscoveredCard::is_version_open)
}

fn doctor(context: &FailureContext<'_>) -> String {
    match context.settings.agent_card.text() {
        Some(agent) => format!("sabir doctor {}", shell(agent)),
        None => "sabir doctor <url>".into(),
    }
}

/// How to get a credential, as the card describes it.
fn credentials_hint(context: &FailureContext<'_>) -> String {
    let schemes = context.found.map(|found| &found.card.security_schemes);
    let mut ways: Vec<String> =
        schemes.into_iter().flatten().map(|(name, scheme)| scheme_hint(name, scheme, context)).collect();
    ways.dedup();
    if ways.is_empty() {
        // Cards of XPR have no schemes: its agents are called with a signature, or not at all.
        ways.push(match context.found.map(|found| found.form) {
            Some(CardSchema::Xpr) => XPR_HINT.into(),
            _ => "set A2ACLI_BEARER".into(),
        });
    }
    ways.join(", or ")
}

/// The hint for agents of XPR Network.
const XPR_HINT: &str = "set XPR_PRIVATE_KEY and give --xpr-account <name>";

fn scheme_hint(name: &str, scheme: &SecurityScheme, context: &FailureContext<'_>) -> String {
    match scheme {
        SecurityScheme::ApiKey { name, .. } if sabir_client::xpr::is_header(name) => XPR_HINT.into(),
        SecurityScheme::ApiKey { .. } => "set A2ACLI_API_KEY".into(),
        SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("basic") => "set A2ACLI_BASIC".into(),
        SecurityScheme::HttpAuth { .. } => "set A2ACLI_BEARER".into(),
        SecurityScheme::OAuth2 { .. } | SecurityScheme::OpenIdConnect { .. } => {
            context.resume.command(&format!("auth login --scheme {}", shell(name)))
        }
        SecurityScheme::MutualTls { .. } => "give --client-cert and --client-key".into(),
    }
}

/// A version that the card offers and this tool can speak on request.
fn offered_version(found: Option<&DiscoveredCard>) -> Option<String> {
    let interfaces = found?.card.supported_interfaces.iter();
    let spoken = interfaces.filter_map(|interface| {
        let version: Vec<&str> = interface.protocol_version.split('.').take(2).collect();
        version.join(".").parse::<sabir_wire::Dialect>().ok()
    });
    spoken.map(|dialect| dialect.name().to_owned()).next()
}

fn required_extension(found: Option<&DiscoveredCard>) -> Option<String> {
    let required = found?.card.capabilities.extensions.iter().find(|extension| extension.required)?;
    Some(required.uri.clone())
}
