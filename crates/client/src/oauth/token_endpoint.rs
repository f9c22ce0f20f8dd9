//! Requests to an authorization server: forms out, JSON back, with client authentication on every one.

use super::{ANSWER_BYTES_MAX, Clock, Http, OAuthClient, OAuthError, Token, check_endpoint, printable};
use crate::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::Ordering;
use url::Url;
use url::form_urlencoded;

/// The longest lifetime of a token. It keeps sums from overflowing.
const LIFE_SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;

/// The members of a token answer, RFC 6749 §5.1 and OpenID Connect.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<Value>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    pub(super) id_token: Option<String>,
}

impl TokenResponse {
    pub(super) fn into_token(self, asked: &[String], now: u64) -> Result<Token, OAuthError> {
        // Some servers leave the type out and mean `bearer`. Other types (`DPoP`, `mac`) need a proof that we cannot
        // give.
        if let Some(kind) = self.token_type.filter(|kind| !kind.eq_ignore_ascii_case("bearer")) {
            return Err(OAuthError::TokenType(printable(&kind)));
        }
        let scopes = match self.scope {
            Some(scope) => scope.split_ascii_whitespace().map(printable).collect(),
            None => asked.to_vec(),
        };
        let some = |text: String| (!text.is_empty()).then(|| Secret::new(text));
        let expires = self.expires_in.as_ref().and_then(seconds).map(|life| now.saturating_add(life));
        let refresh = self.refresh_token.and_then(some);
        Ok(Token { access: Secret::new(self.access_token), refresh, expires, scopes })
    }
}

/// A number of seconds. Some servers send it as text, some with a fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates, and the fraction of a second is meant to go"
)]
pub(super) fn seconds(value: &Value) -> Option<u64> {
    let seconds = match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().map(|seconds| seconds as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    seconds.map(|seconds| seconds.min(LIFE_SECONDS_MAX))
}

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Sends a form to the token endpoint.
    pub(super) async fn request_token(&self, url: &Url, form: &[(&str, &str)]) -> Result<TokenResponse, OAuthError> {
        let (status, answer) = self.post_form(url, form).await?;
        match answer.get("access_token") {
            Some(Value::String(token)) if !token.is_empty() => {}
            _ => return Err(unreadable_error(url, status, "no access token")),
        }
        // The parser's message quotes values, and these values are secrets.
        serde_json::from_value(answer).map_err(|_| unreadable_error(url, status, "members of unexpected types"))
    }

    /// Posts a form with client authentication. The secret goes by HTTP Basic, which RFC 6749 §2.3.1 requires every
    /// server to accept. A server that answers `invalid_client` gets the secret in the form, and from then on always
    /// there.
    pub(super) async fn post_form(&self, url: &Url, form: &[(&str, &str)]) -> Result<(StatusCode, Value), OAuthError> {
        check_endpoint(url)?;
        let in_form = self.secret_in_form.load(Ordering::Relaxed);
        let answer = self.post(url, form, in_form).await;
        match answer {
            Err(OAuthError::Refused { ref error, .. })
                if error == "invalid_client" && self.secret.is_some() && !in_form =>
            {
                let second = self.post(url, form, true).await;
                if !matches!(&second, Err(OAuthError::Refused { error, .. }) if error == "invalid_client") {
                    self.secret_in_form.store(true, Ordering::Relaxed);
                }
                second
            }
            answer => answer,
        }
    }

    async fn post(&self, url: &Url, form: &[(&str, &str)], in_form: bool) -> Result<(StatusCode, Value), OAuthError> {
        let request = self.build_request(url, form, in_form)?;
        self.exchange(url, request).await
    }

    /// Builds the request. It is separate from the sending, because the form serializer is not `Send`.
    fn build_request(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        in_form: bool,
    ) -> Result<http::Result<Request<Vec<u8>>>, OAuthError> {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(form);
        let mut request = Request::builder().method(Method::POST).uri(url.as_str());
        match self.secret {
            Some(secret) if !in_form => request = request.header(AUTHORIZATION, basic_header(self.id, secret)?),
            Some(secret) => {
                body.append_pair("client_id", self.id).append_pair("client_secret", secret.expose());
            }
            None => {
                body.append_pair("client_id", self.id);
            }
        }
        Ok(request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.finish().into_bytes()))
    }

    /// Fetches a public document without credentials.
    pub(super) async fn fetch(&self, url: &Url) -> Result<(StatusCode, Vec<u8>), OAuthError> {
        check_endpoint(url)?;
        let request = Request::builder().method(Method::GET).uri(url.as_str()).body(Vec::new());
        let (status, body) = self.send(url, request).await?;
        if !status.is_success() {
            return Err(unreadable_error(url, status, "not found there"));
        }
        Ok((status, body))
    }

    async fn exchange(
        &self,
        url: &Url,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<(StatusCode, Value), OAuthError> {
        let (status, body) = self.send(url, request).await?;
        let Ok(answer @ Value::Object(_)) = serde_json::from_slice(&body) else {
            return Err(unreadable_error(url, status, "not a JSON object"));
        };
        // This check comes before the status: some servers refuse with status 200.
        if let Some(Value::String(error)) = answer.get("error") {
            let description = answer.get("error_description").and_then(Value::as_str).map(printable);
            return Err(OAuthError::Refused { error: printable(error), description });
        }
        if !status.is_success() {
            return Err(unreadable_error(url, status, "neither an answer nor an error"));
        }
        Ok((status, answer))
    }

    async fn send(
        &self,
        url: &Url,
        request: http::Result<Request<Vec<u8>>>,
    ) -> Result<(StatusCode, Vec<u8>), OAuthError> {
        let bad = |_| OAuthError::BadUrl { what: "endpoint", value: url.to_string() };
        let mut request = request.map_err(bad)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let sent = self.http.send(request).await;
        let (parts, body) = sent.map_err(|cause| OAuthError::NoAnswer { url: url.clone(), cause })?.into_parts();
        if body.len() > ANSWER_BYTES_MAX {
            return Err(unreadable_error(url, parts.status, "larger than any answer should be"));
        }
        Ok((parts.status, body))
    }
}

pub(super) fn unreadable_error(url: &Url, status: StatusCode, why: &str) -> OAuthError {
    OAuthError::Unreadable { url: url.clone(), status, why: why.to_owned() }
}

/// Both halves are form-encoded first (RFC 6749 §2.3.1), so that a colon in an id does not end it.
fn basic_header(id: &str, secret: &Secret) -> Result<HeaderValue, OAuthError> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose())));
    // Base64 is always a valid header value.
    let mut value =
        HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| OAuthError::Missing("usable client id"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn seconds_come_in_many_spellings_and_never_overflow() {
        for (value, expected) in [
            (json!(3600), Some(3600)),
            (json!("3600"), Some(3600)),
            (json!(3599.9), Some(3599)),
            (json!(-5), Some(0)),
            (json!(1e300), Some(LIFE_SECONDS_MAX)),
            (json!(u64::MAX), Some(LIFE_SECONDS_MAX)),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            assert_eq!(seconds(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_colon_in_the_id_does_not_end_it() {
        let value = basic_header("a:b c", &Secret::new("s&é")).unwrap();
        assert!(value.is_sensitive());
        let pair = STANDARD.decode(value.to_str().unwrap().strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(String::from_utf8(pair).unwrap(), "a%3Ab+c:s%26%C3%A9");
    }
}
