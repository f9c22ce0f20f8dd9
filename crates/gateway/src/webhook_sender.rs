//! Delivers to webhooks for the engine: its [`PushTransport`], over the HTTP client.
//!
//! One attempt is one POST: the body in the receiver's dialect, the credentials that the receiver registered, and our
//! signatures. The host name is looked up once, the addresses are checked, and a checked one is dialled, so that a name
//! which resolves differently the next time gains nothing. Redirects are not followed. Only the status of the answer
//! counts.
//!
//! [`WebhookEncoder`] encodes events in a dialect; the engine decides when to try again.

use crate::outbound_url::{host_of, parse_outbound_url};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use sabir_client::{DocumentClient, Egress, Error, ResponseHead, Tls};
use sabir_engine::{BoxFuture, DeliveryOutcome, DeliveryRequest, DeliveryResult, PushTransport};
use sabir_guard::sign::SigningKey;
use sabir_guard::sign::webhook::{self, TokenSubject, WebhookAttempt, WebhookSecret};
use sabir_proto::{Authentication, FieldViolation, PushConfig, Secret, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::OwnedSemaphorePermit;
use url::Url;

/// How long one attempt may take, from the look-up of the name to the status of the answer.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(15);

/// The header by which a receiver recognises its own registration.
const NOTIFICATION_TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// The header in which receivers look for API keys.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Encodes events for receivers.
pub trait WebhookEncoder: Send + Sync + 'static {
    /// The body to send, or the outcome of the delivery if there is none.
    fn encode<'a>(&'a self, parcel: &'a DeliveryRequest) -> BoxFuture<'a, Result<WebhookBody, DeliveryOutcome>>;
}

/// An event as it is sent.
#[derive(Debug)]
pub struct WebhookBody {
    /// The media type of the body.
    pub media_type: &'static str,
    /// The bytes of the encoded event.
    pub bytes: Vec<u8>,
    /// The memory that the bytes take, given back when the attempt has ended.
    pub room_permit: Option<OwnedSemaphorePermit>,
    /// The secrets that only this receiver shares with us, in place of those that all receivers share.
    pub receiver_secrets: Option<ReceiverSecrets>,
}

/// Secrets of one receiver of booking network events. The first is the current one and signs its headers; all of them
/// sign those of *Standard Webhooks*, so that a receiver can change its secret at any time.
#[derive(Debug)]
pub struct ReceiverSecrets(pub Vec<Secret>);

/// Signs deliveries: with shared secrets, and with tokens that name us.
#[derive(Debug, Default)]
pub struct WebhookSigner {
    /// Secrets that are shared with receivers; each signs.
    pub secrets: Vec<WebhookSecret>,
    /// The key for tokens, and what the tokens say.
    pub token_key: Option<WebhookTokenKey>,
}

/// A key whose public half is published.
#[derive(Debug)]
pub struct WebhookTokenKey {
    /// The private key for tokens.
    pub key: Arc<SigningKey>,
    /// The URL of the key set with its public half.
    pub keys_url: Url,
    /// Our own URL, without a slash at its end.
    pub issuer: String,
}

/// Delivers to webhooks. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct WebhookSender {
    documents: DocumentClient,
    encoder: Arc<dyn WebhookEncoder>,
    signer: Arc<WebhookSigner>,
}

impl WebhookSender {
    /// A sender under an address policy, with certificates to trust. An attempt takes at most `patience`.
    pub fn new(
        egress: Egress,
        tls: &Tls,
        patience: Duration,
        seal: WebhookSigner,
        bodies: impl WebhookEncoder,
    ) -> Result<Self, Error> {
        let documents = DocumentClient::new(egress, tls, patience)?;
        Ok(Self { documents, encoder: Arc::new(bodies), signer: Arc::new(seal) })
    }

    async fn attempt(&self, parcel: &DeliveryRequest) -> DeliveryOutcome {
        let forbidden = |reason: String| DeliveryOutcome::Forbidden { reason };
        let url = match parse_outbound_url(&parcel.config.url) {
            Ok(url) => url,
            Err(fault) => return forbidden(fault.to_string()),
        };
        let WebhookBody { media_type, bytes, room_permit: _room, receiver_secrets: own } =
            match self.encoder.encode(parcel).await {
                Ok(written) => written,
                Err(outcome) => return outcome,
            };
        let request = match self.build_request(parcel, &url, media_type, bytes, own.as_ref()) {
            Ok(request) => request,
            Err(reason) => return forbidden(reason),
        };
        match self.documents.send_for_status(request).await {
            Ok(receipt) => outcome_of(receipt),
            Err(Error::Refused(refusal)) => {
                forbidden(format!("{refusal}; if it is meant, name its network in allow of [egress]"))
            }
            Err(Error::Usage(reason)) => forbidden(reason),
            Err(other) if other.cannot_have_arrived() => DeliveryOutcome::Unreachable { reason: other.to_string() },
            Err(other) => DeliveryOutcome::NoAnswer { reason: other.to_string() },
        }
    }

    /// The request of an attempt, or the reason why there can be none.
    fn build_request(
        &self,
        parcel: &DeliveryRequest,
        url: &Url,
        media_type: &'static str,
        body: Vec<u8>,
        own: Option<&ReceiverSecrets>,
    ) -> Result<Request<Bytes>, String> {
        let attempt = WebhookAttempt { id: &parcel.id, at: now(), body: &body };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        let token = self.signer.sign(&attempt, url, parcel, own, &mut headers)?;
        if let Some(authentication) = &parcel.config.authentication {
            add_authentication(authentication, token.as_deref(), &mut headers)?;
        }
        if let Some(token) = &parcel.config.token {
            headers.insert(NOTIFICATION_TOKEN, secret_header("token", token)?);
        }
        let head = Request::builder().method(Method::POST).uri(url.as_str());
        let mut request = head.body(Bytes::from(body)).map_err(|_| "the webhook's URL cannot be called".to_owned())?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl PushTransport for WebhookSender {
    fn host_of(&self, url: &str) -> Result<Arc<str>, String> {
        host_of(url).map_err(|fault| fault.to_string())
    }

    /// Writes the headers that a delivery will have, to find out whether they can be sent.
    fn check(&self, config: &PushConfig) -> Result<(), FieldViolation> {
        let wrong = |member: &str, description: String| FieldViolation { field: member.to_owned(), description };
        if let Some(token) = &config.token {
            secret_header("token", token).map_err(|why| wrong("token", why))?;
        }
        match &config.authentication {
            Some(given) => {
                add_authentication(given, None, &mut HeaderMap::new()).map_err(|why| wrong("authentication", why))
            }
            None => Ok(()),
        }
    }

    fn deliver(&self, parcel: DeliveryRequest) -> BoxFuture<'static, DeliveryResult> {
        let webhooks = self.clone();
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = webhooks.attempt(&parcel).await;
            DeliveryResult { outcome, took: begun.elapsed() }
        })
    }
}

impl WebhookSigner {
    /// Adds id, time and signatures to the headers; returns the token, if there is a key for one.
    fn sign(
        &self,
        attempt: &WebhookAttempt<'_>,
        to: &Url,
        parcel: &DeliveryRequest,
        own: Option<&ReceiverSecrets>,
        headers: &mut HeaderMap,
    ) -> Result<Option<String>, String> {
        headers.insert(webhook::ID, header_value(attempt.id)?);
        headers.insert(webhook::TIMESTAMP, HeaderValue::from(attempt.timestamp()));
        match own {
            Some(own) => own.sign(attempt, headers)?,
            None if !self.secrets.is_empty() => {
                headers.insert(webhook::SIGNATURE, header_value(&attempt.signature(&self.secrets))?);
            }
            None => {}
        }
        let Some(WebhookTokenKey { key, keys_url, issuer }) = &self.token_key else { return Ok(None) };
        let (audience, task) = (to.origin().ascii_serialization(), parcel.task.to_string());
        let token = attempt.token(key, keys_url, &TokenSubject { issuer, audience: &audience, task: &task });
        let token = token.ok_or("the delivery cannot be signed")?;
        headers.insert(webhook::TOKEN, header_value(&token)?);
        Ok(Some(token))
    }
}

impl ReceiverSecrets {
    /// Adds the headers of *Standard Webhooks* and of the booking network, side by side.
    fn sign(&self, attempt: &WebhookAttempt<'_>, headers: &mut HeaderMap) -> Result<(), String> {
        let secrets = self.0.iter().map(WebhookSecret::read).collect::<Result<Vec<_>, _>>();
        let secrets = secrets.map_err(|fault| fault.to_string())?;
        let present = self.0.first().ok_or("the subscription has no secret")?;
        headers.insert(webhook::SIGNATURE, header_value(&attempt.signature(&secrets))?);
        headers.insert(webhook::AGNT_TIMESTAMP, HeaderValue::from(attempt.timestamp()));
        headers.insert(webhook::AGNT_SIGNATURE, header_value(&attempt.agnt_signature(present))?);
        Ok(())
    }
}

/// The outcome of a delivery that was answered with this status.
fn outcome_of(ResponseHead { status, retry_after }: ResponseHead) -> DeliveryOutcome {
    let code = status.as_u16();
    match status {
        status if status.is_success() => DeliveryOutcome::Accepted { status: code },
        // Only this status is final; behind proxies, 404 is also the answer while a receiver is replaced.
        StatusCode::GONE => DeliveryOutcome::Gone { status: code },
        _ => DeliveryOutcome::Refused { status: code, retry_after },
    }
}

/// `Authorization: {scheme} {credentials}`, whatever the scheme (A2A 1.0 §4.3.3).
fn add_authentication(given: &Authentication, token: Option<&str>, headers: &mut HeaderMap) -> Result<(), String> {
    let scheme = given.scheme.trim();
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if scheme.is_empty() || !scheme.bytes().all(is_token) {
        return Err("the scheme of the webhook's authentication is not one word".into());
    }
    let credentials = match &given.credentials {
        Some(credentials) => credentials.as_str(),
        // A receiver that registered no credentials for `Bearer` gets our own token, and checks it with our published
        // keys.
        None if is("bearer") => match token {
            Some(token) => token,
            None => return Ok(()),
        },
        None => return Ok(()),
    };
    // A colon is in no base64, so these are name and password, still to be encoded.
    let encoded = if is("basic") && credentials.contains(':') { basic(credentials) } else { credentials.to_owned() };
    headers.insert(AUTHORIZATION, secret_header("credentials", &format!("{scheme} {encoded}"))?);
    // Not an IANA scheme: receivers look for API keys in the header in which other senders put them.
    if ["apikey", "api-key", "api_key", "x-api-key"].into_iter().any(is) {
        headers.insert(API_KEY, secret_header("credentials", credentials)?);
    }
    Ok(())
}

fn basic(credentials: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(credentials)
}

fn header_value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|_| "the delivery has a name that no header can carry".into())
}

/// A value that logs do not show. If it cannot be sent, the error names `what`, and not the value.
fn secret_header(what: &str, value: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_bytes(value.as_bytes());
    let mut value = value
        .map_err(|_| format!("the webhook's {what} has control characters, such as a line break; a header has none"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The current time; receivers compare it with their own clocks.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
