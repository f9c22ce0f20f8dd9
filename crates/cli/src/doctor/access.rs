//! The first contact: whether a server answers, and which callers it accepts.

use super::Examination;
use super::checks::DoctorCheck::{AuthChallenge, AuthIgnored, AuthRefused, AuthUndeclared, InterfaceReach};
use super::interface::{GREETING, MESSAGE_TIMEOUT};
use super::probe::{AnswerMeaning, ProbeAnswer, ask, unknown_task_call};
use http::header;
use sabir_client::{Agent, ChosenInterface, DiscoveredCard, describe_scheme, text_message};
use sabir_proto::Call;
use sabir_proto::card::SecurityScheme;

/// Asks the first question, with and without credentials. Returns an agent that accepts calls, and its answer.
pub(super) async fn first_contact(
    exam: &mut Examination<'_>,
    single: DiscoveredCard,
    chosen: &ChosenInterface,
) -> Option<(Agent, ProbeAnswer)> {
    exam.report.set_step("asking for a task that does not exist");
    let requirements = &single.card.security_requirements;
    let demands = !requirements.is_empty() && requirements.iter().all(|r| !r.schemes.is_empty());
    let declares = !single.card.security_schemes.is_empty();
    let wanted: Vec<String> =
        single.card.security_schemes.iter().map(|(name, scheme)| describe_scheme(name, scheme)).collect();
    let wants_certificate =
        single.card.security_schemes.values().any(|scheme| matches!(scheme, SecurityScheme::MutualTls { .. }));
    let anonymous_agent = exam.anonymous_agent(&single).ok()?;
    let ours = exam.client.agent(single);
    let first = ask(&anonymous_agent, unknown_task_call(), None, exam.answer_timeout()).await;
    // Some servers do not even answer callers without credentials.
    let known = match &ours {
        Ok(agent) if exam.has_credentials && absence_reason(&first).is_some() => {
            Some(ask(agent, unknown_task_call(), None, exam.answer_timeout()).await)
        }
        _ => None,
    };
    if let Some(why) = absence_reason(known.as_ref().unwrap_or(&first)) {
        if !exam.has_credentials && wants_certificate && exam.accepts_connections(&chosen.url).await {
            exam.report.skip(InterfaceReach, "closed to those who show no certificate, as the card says");
            exam.report.skip_remaining("needs a client certificate, and none was given");
            exam.report.usability_unknown("unknown without a certificate");
            return None;
        }
        exam.report.report_fault(InterfaceReach, format!("{}: {why}", chosen.url));
        exam.report.skip_remaining("no interface answers");
        return None;
    }
    exam.report.ok(InterfaceReach, chosen.url.to_string());
    let shut = known.is_some() || matches!(first.meaning, AnswerMeaning::Unauthorized(_));
    if shut && !declares {
        exam.report.report_fault(AuthUndeclared, "refused without a credential, and the card declares no scheme");
    } else {
        let well = if shut { "as declared" } else { "open without a credential" };
        exam.report.ok(AuthUndeclared, well);
    }
    if shut {
        judge_challenge(exam, &first);
    } else {
        exam.report.skip(AuthChallenge, "no caller is refused");
    }
    match (demands, shut) {
        (false, _) => exam.report.skip(AuthIgnored, "the card requires no credential"),
        (true, true) => exam.report.ok(AuthIgnored, "strangers are refused"),
        (true, false) => judge_openness(exam, &anonymous_agent).await,
    }
    if !exam.has_credentials {
        if shut {
            let asked = if wanted.is_empty() { "a credential".into() } else { wanted.join(" or ") };
            exam.report.skip_remaining(format!("needs {asked}, and none was given"));
            exam.report.usability_unknown("unknown without a credential");
            return None;
        }
        exam.report.skip(AuthRefused, "no credential was given");
        return Some((anonymous_agent, first));
    }
    match ours {
        Ok(agent) => {
            let known = ask(&agent, unknown_task_call(), None, exam.answer_timeout()).await;
            if let AnswerMeaning::Unauthorized(why) = &known.meaning {
                exam.report.report_fault(AuthRefused, why.clone());
                exam.report.skip_remaining("the credential is not accepted");
                return None;
            }
            exam.report.ok(AuthRefused, "the credential is accepted");
            Some((agent, known))
        }
        Err(error) if shut => {
            exam.report.report_fault_with_fix(
                AuthRefused,
                error.to_string(),
                "give a credential that fits a scheme of the card",
            );
            exam.report.skip_remaining("the credential does not fit");
            None
        }
        // None of our credentials fits, and the agent asks for none.
        Err(_) => Some((anonymous_agent, first)),
    }
}

fn absence_reason(answer: &ProbeAnswer) -> Option<String> {
    match &answer.meaning {
        AnswerMeaning::Unreachable(why) => Some(why.clone()),
        AnswerMeaning::TimedOut => Some("takes the request and does not answer".into()),
        _ => None,
    }
}

fn judge_challenge(exam: &mut Examination<'_>, first: &ProbeAnswer) {
    match first.status {
        Some(401) => {
            let challenge = first.headers.get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
            let lacking = challenge.is_none().then(|| "HTTP 401 without WWW-Authenticate".to_owned());
            let scheme = challenge.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned();
            exam.report.report_result(AuthChallenge, scheme, lacking);
        }
        Some(status) => exam.report.skip(AuthChallenge, format!("refused with HTTP {status}, which has no challenge")),
        None => exam.report.skip(AuthChallenge, "refused without HTTP, which alone has a challenge"),
    }
}

/// An agent may answer any caller's question about an unknown task as a courtesy; a message it may not.
async fn judge_openness(exam: &mut Examination<'_>, anonymous_agent: &Agent) {
    let sent = ask(anonymous_agent, Call::Send(Box::new(text_message(GREETING))), None, MESSAGE_TIMEOUT).await;
    match sent.meaning {
        AnswerMeaning::Unauthorized(_) => exam.report.ok(AuthIgnored, "strangers are refused"),
        AnswerMeaning::Answer(_) => {
            exam.report.report_fault(AuthIgnored, "a message without any credential was answered")
        }
        _ => exam.report.skip(AuthIgnored, "cannot be told from the answers"),
    }
}
