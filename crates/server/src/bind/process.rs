//! The routes by which agent-native servers call themselves back, to work on a task or to check a wait.
//!
//! There such a call starts the work, and the process that gets it claims the row. Here a task has a worker from its
//! first row on, and a start resumes what a crash left. So these routes resume a task without a worker, and otherwise
//! do nothing. They answer as the originals do, for known and unknown tasks alike.

use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::tokio_host::TokioHost;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use sabir_engine::{Continuation, Host as _};
use sabir_guard::authn::{bearer_token, process_token};
use sabir_proto::{Secret, TaskId, Timestamp};
use serde_json::{Value, json};

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallbackJob {
    Task,
    Continuation,
}

impl CallbackJob {
    /// The job that a path stands for.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/_agent-native/a2a/_process-task" => Some(Self::Task),
            "/_agent-native/integrations/process-a2a-continuation" => Some(Self::Continuation),
            _ => None,
        }
    }

    /// The member of the body that has the id.
    const fn member(self) -> &'static str {
        match self {
            Self::Task => "taskId",
            Self::Continuation => "continuationId",
        }
    }

    /// The task of the id; `None` if no task here can have it.
    fn task(self, id: &str) -> Option<TaskId> {
        match self {
            Self::Task => TaskId::parse(id),
            Self::Continuation => Continuation::task_of(id),
        }
    }
}

/// Serves one callback.
pub(crate) async fn serve(app: &App, job: CallbackJob, headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let terms = CallbackTerms { secret: app.process_secret.as_ref(), production: app.production, now: TokioHost.now() };
    let id = match admit(job, headers, body, &terms) {
        Ok(id) => id,
        Err((status, problem)) => return respond(status, &json!({ "error": problem })),
    };
    if let Some(task) = job.task(&id)
        && let Err(error) = app.engine.resume(task, |name| app.directory.status(name)).await
    {
        tracing::error!(%task, %error, "a task could not be taken up");
        return respond(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "Internal error"}));
    }
    match job {
        CallbackJob::Task => respond(StatusCode::OK, &json!({"ok": true})),
        CallbackJob::Continuation => respond(StatusCode::OK, &json!({"ok": true, "continuationId": id})),
    }
}

/// The response to any method but POST.
pub(crate) fn wrong_method() -> Response<Body> {
    let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, &json!({"error": "Method not allowed"}));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The settings that decide whether a call is admitted.
struct CallbackTerms<'a> {
    secret: Option<&'a Secret>,
    production: bool,
    now: Timestamp,
}

/// The id in a call. It is read before the token, because the token covers it.
fn admit(
    job: CallbackJob,
    headers: &HeaderMap,
    body: &[u8],
    terms: &CallbackTerms<'_>,
) -> Result<String, (StatusCode, String)> {
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let id = said.get(job.member()).and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| (StatusCode::BAD_REQUEST, format!("{} required", job.member())))?;
    let Some(secret) = terms.secret else {
        if terms.production {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "A2A_SECRET is not configured".into()));
        }
        return Ok(id.into());
    };
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer_token);
    let good = token.is_some_and(|token| process_token::verify(token, Some(secret), id, terms.now).is_ok());
    match good {
        true => Ok(id.into()),
        false => Err((StatusCode::UNAUTHORIZED, "Invalid or expired processor token".into())),
    }
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    answer(status, JSON, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(job: CallbackJob, token: Option<&str>, body: &str, terms: &CallbackTerms<'_>) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        }
        admit(job, &headers, body.as_bytes(), terms).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn tokens_get_the_verdicts_of_the_vectors() {
        let vectors = include_str!("../../../guard/tests/vectors/agent-native-process-token.json");
        let vectors: Value = serde_json::from_str(vectors).unwrap();
        let mut played = 0;
        for case in vectors["cases"].as_array().unwrap() {
            let (name, id, token) = (&case["name"], case["task_id"].as_str().unwrap(), case["token"].as_str().unwrap());
            // A text that no header can carry never gets here.
            if HeaderValue::from_str(&format!("Bearer {token}")).is_err() || case["secret"].is_null() {
                continue;
            }
            let secret = Secret::new(case["secret"].as_str().unwrap());
            let now = Timestamp::from_millis(case["now_ms"].as_i64().unwrap());
            let terms = CallbackTerms { secret: Some(&secret), production: true, now };
            let expected = match (id, case["accepted"].as_bool().unwrap()) {
                // The vectors test the token only; the route checks the id first.
                ("", _) => Err(400),
                (id, true) => Ok(id.to_owned()),
                (_, false) => Err(401),
            };
            let body = json!({ "taskId": id }).to_string();
            assert_eq!(ask(CallbackJob::Task, Some(token), &body, &terms), expected, "{name}");
            let body = json!({ "continuationId": id }).to_string();
            assert_eq!(ask(CallbackJob::Continuation, Some(token), &body, &terms), expected, "{name}");
            played += 1;
        }
        assert!(played >= 20, "{played}");
    }

    #[test]
    fn the_id_is_asked_for_first_and_a_secret_only_in_production() {
        let secret = Secret::new("s");
        let now = Timestamp::from_millis(1_700_000_000_000);
        let terms = |secret, production| CallbackTerms { secret, production, now };
        for body in ["", "{", "{}", "[]", r#"{"taskId":""}"#, r#"{"taskId":7}"#, r#"{"continuationId":"x"}"#] {
            assert_eq!(ask(CallbackJob::Task, None, body, &terms(Some(&secret), true)), Err(400), "{body}");
        }
        let body = r#"{"taskId":"x"}"#;
        assert_eq!(ask(CallbackJob::Task, None, body, &terms(Some(&secret), false)), Err(401));
        assert_eq!(ask(CallbackJob::Task, None, body, &terms(None, true)), Err(503));
        assert_eq!(ask(CallbackJob::Task, None, body, &terms(None, false)), Ok("x".into()));
    }
}
