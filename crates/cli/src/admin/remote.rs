//! A server elsewhere, administered over its API with a key.

use crate::problem::{ErrorCode, Problem};
use bytes::Bytes;
use http::{Request, header};
use sabir_client::redact::process_redactor;
use sabir_client::{DocumentClient, Egress, Secret, Tls, is_loopback};
use sabir_server::admin::{AdminError, AdminErrorCode, AdminOperation, ApiRequest, SecretRef};
use serde::Deserialize;
use std::time::Duration;
use url::Url;

/// How long a server may take: adding an agent calls it, and it may be slow.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(150);
/// The largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The variable with the key.
const KEY_VARIABLE: &str = "SABIR_ADMIN_KEY";

/// A server with an API, and the key for it.
pub(super) struct RemoteServer {
    base: Url,
    key: Secret,
}

/// The members of a problem (RFC 9457) that are read.
#[derive(Deserialize)]
struct ProblemDocument {
    code: Option<AdminErrorCode>,
    detail: Option<String>,
    hint: Option<String>,
}

impl RemoteServer {
    pub(super) fn new(url: Url, key: Option<&str>) -> Result<Self, Problem> {
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(Problem::usage(format!("{url} is no URL of a server")).hint("--server https://HOST"));
        }
        if url.scheme() == "http" && !is_loopback(&url) {
            let words = format!("{url} is plain HTTP, and the key would be readable on the way");
            return Err(Problem::usage(words).hint("--server https://HOST"));
        }
        let base = url.join("/api/v1").map_err(|_| Problem::usage(format!("{url} is no URL of a server")))?;
        let key = match key {
            Some(reference) => read_key(reference)?,
            None => std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
                let words = "no key was given for the server";
                Problem::new(ErrorCode::CredentialsMissing, words)
                    .hint("set SABIR_ADMIN_KEY, or name where the key is: --server-key file:PATH")
            })?,
        };
        process_redactor().learn(&key);
        Ok(Self { base, key: Secret::new(key) })
    }

    /// Runs an operation on the server. The outer error is one of the way to it.
    pub(super) async fn ask<O: AdminOperation>(&self, operation: O) -> Result<Result<O::Output, AdminError>, Problem> {
        let request = operation.to_http().map_err(Problem::internal)?;
        let ApiRequest { method, path, body } = request.ok_or_else(|| {
            Problem::usage("this can only be done on the machine of the server").hint("leave --server out")
        })?;
        let url = format!("{}{path}", self.base);
        let request = Request::builder()
            .method(method)
            .uri(&url)
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.key.expose()));
        let request = match &body {
            Some(_) => request.header(header::CONTENT_TYPE, "application/json"),
            None => request,
        };
        let request = request.body(Bytes::from(body.unwrap_or_default()));
        let request = request.map_err(|_| Problem::usage(format!("{url} cannot be called")))?;
        let failed = |error: sabir_client::Error| crate::call::problem_of(&error);
        let client = DocumentClient::new(Egress::anywhere(), &Tls::default(), REQUEST_TIME_MAX).map_err(failed)?;
        let response = client.exchange(request, ANSWER_BYTES_MAX).await.map_err(failed)?;
        if response.status().is_success() {
            let read = serde_json::from_slice(response.body());
            return match read {
                Ok(output) => Ok(Ok(output)),
                Err(error) => {
                    Err(Problem::internal(format!("{url} answers something else than it was asked: {error}")))
                }
            };
        }
        Ok(Err(refusal(&url, response.status(), response.body())))
    }
}

/// The error in an answer. An answer without one comes from something that is no API of ours.
fn refusal(url: &str, status: http::StatusCode, body: &[u8]) -> AdminError {
    let document: Option<ProblemDocument> = serde_json::from_slice(body).ok();
    match document {
        Some(ProblemDocument { code: Some(code), detail: Some(message), hint }) => AdminError { code, message, hint },
        _ => AdminError {
            code: AdminErrorCode::Operator,
            message: format!("{url} answers HTTP {status}; is the API of that server on?"),
            hint: Some("enabled = true in [api] of its configuration; docs/guides/admin-api.md".into()),
        },
    }
}

fn read_key(reference: &str) -> Result<String, Problem> {
    // Not repeated: what was typed instead may be the key itself.
    let wrong = || Problem::usage("--server-key is env:NAME or file:PATH, not the key itself");
    let text = match SecretRef::parse(reference).map_err(|_| wrong())? {
        SecretRef::Env(name) => {
            std::env::var(&name).map_err(|_| Problem::usage(format!("--server-key: {name} is not set")))?
        }
        SecretRef::File(path) => std::fs::read_to_string(&path)
            .map_err(|error| Problem::usage(format!("--server-key: {}: {error}", path.display())))?,
    };
    Ok(text.trim().to_owned())
}
