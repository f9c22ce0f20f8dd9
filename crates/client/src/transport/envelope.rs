//! The envelope of a booking network as a transport. `wire` encodes and decodes its content.
//!
//! Only messages can be sent; this transport refuses calls about tasks without a request. Every attempt to send the
//! same message over this transport carries the same timestamp, by which the network recognises a retry.

use super::{AgentTransport, EventStream, answer_response, new_message_id, single_event_stream};
use crate::envelope::{ANSWER_BYTES_MAX, EnvelopeMac, sign_envelope, verify_payload};
use crate::http_client::REFUSAL_BYTES_MAX;
use crate::{AgentResponse, Error, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use sabir_proto::{Call, Fault, MessageId, WireReply};
use sabir_wire::agnt::{Envelope, Intent, NETWORK, NanoTimestamp, NetworkAnswerError, message, read_answer};
use sabir_wire::{Dialect, Losses};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest time that networks allow for an answer.
const TTL_MS: u64 = 15_000;
/// The sender if the URL does not name one.
const SENDER: &str = "sabir";
/// The query parameter of the URL that names the sender, such as `?from=my_agent`. It is not sent.
const FROM: &str = "from";
/// The number of messages whose timestamps are remembered.
const STAMPS_MAX: usize = 4096;

/// The timestamp of each message's first attempt, and the last timestamp.
#[derive(Default)]
pub(super) struct MessageTimestamps(Mutex<(VecDeque<(MessageId, NanoTimestamp)>, i64)>);

impl MessageTimestamps {
    fn of(&self, message: &MessageId) -> NanoTimestamp {
        let mut stamps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, last) = &mut *stamps;
        if let Some((_, moment)) = known.iter().find(|(id, _)| id == message) {
            return *moment;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        *last = i64::try_from(since.as_micros()).unwrap_or(i64::MAX).max(last.saturating_add(1));
        let moment = NanoTimestamp::from_nanos(last.saturating_mul(1000));
        if known.len() >= STAMPS_MAX {
            known.pop_front();
        }
        known.push_back((message.clone(), moment));
        moment
    }
}

pub(super) async fn send_call(line: &AgentTransport, call: &Call) -> Result<AgentResponse<WireReply>, Error> {
    let mut losses = Losses::new();
    let (intent, envelope) = build_envelope(line, call, &mut losses)?;
    let body = Bytes::from(envelope.write());
    let answer = line.request(Method::POST, address(line), headers(line), Some(body)).await?;
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let limit = if status.is_success() { ANSWER_BYTES_MAX } else { REFUSAL_BYTES_MAX };
    let body = answer.body("the answer", limit).await?;
    let transport = TransportCode::Http(status.as_u16());
    let refuse = |fault: Fault, after| Err(line.fault_error(fault, transport.clone(), after));
    let answer = match read_answer(&body, status.as_u16()) {
        Ok(answered) => {
            let key = line.attached.envelope_key.as_deref().map(|key| key as &dyn EnvelopeMac);
            let payload = verify_payload(answered.payload, key);
            let payload = payload.map_err(|why| Error::local(Fault::InvalidAgentResponse(why)))?;
            message::answer_from_result(intent, &payload, &mut new_message_id).map_err(Error::local)?
        }
        Err(NetworkAnswerError::Refused(problem)) => {
            let after = problem.retry_after.or(retry_after);
            match message::answer_from_problem(intent, problem, &mut new_message_id) {
                Ok(answer) => answer,
                Err(fault) => return refuse(fault, after),
            }
        }
        Err(NetworkAnswerError::UnknownCode { code, message, retryable: true }) => {
            return refuse(Fault::Unavailable(format!("{code}: {message}")), retry_after);
        }
        Err(NetworkAnswerError::UnknownCode { code, message, .. }) => {
            return refuse(Fault::UnsupportedOperation(format!("{code}: {message}")), retry_after);
        }
        Err(NetworkAnswerError::NotAnAnswer(_)) if !status.is_success() => {
            return Err(line.status_error(status, retry_after, &host));
        }
        Err(NetworkAnswerError::NotAnAnswer(why)) => return Err(Error::local(Fault::InvalidAgentResponse(why))),
    };
    // The answer is not A2A, so the JSON is encoded from the value.
    Ok(answer_response(Dialect::NEWEST, answer, None, losses))
}

pub(super) async fn open_stream(line: &Arc<AgentTransport>, call: &Call) -> Result<EventStream, Error> {
    single_event_stream(Dialect::NEWEST, send_call(line, call).await?, None)
}

/// Previews a call without sending it.
pub(super) fn preview(
    line: &AgentTransport,
    call: &Call,
) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let (_, envelope) = build_envelope(line, call, &mut Losses::new())?;
    Ok((Method::POST, address(line).to_string(), headers(line), Some(envelope.write())))
}

fn headers(line: &AgentTransport) -> HeaderMap {
    let mut headers = line.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

/// The URL of the network, without the sender parameter.
fn address(line: &AgentTransport) -> url::Url {
    let mut url = line.chosen.url.clone();
    url.set_query(None);
    url
}

fn build_envelope(line: &AgentTransport, call: &Call, losses: &mut Losses) -> Result<(Intent, Envelope), Error> {
    let (Call::Send(request) | Call::Stream(request)) = call else {
        let words = "a booking network has no tasks: it is sent messages, and answers them at once";
        return Err(Error::local(Fault::UnsupportedOperation(words.into())));
    };
    let (intent, payload) = message::intent_and_payload(request, losses).map_err(Error::local)?;
    let sender = line.chosen.url.query_pairs().find(|(name, _)| name == FROM).map(|(_, value)| value.into_owned());
    let mut envelope = Envelope::new(sender.as_deref().unwrap_or(SENDER), intent, payload);
    envelope.to = line.chosen.interface.tenant.clone().unwrap_or_else(|| NETWORK.into());
    envelope.ttl_ms = TTL_MS;
    envelope.timestamp = Some(line.timestamps.of(&request.message.message_id));
    if let Some(key) = &line.attached.envelope_key {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let sender = envelope.from.clone();
        sign_envelope(&mut envelope, &sender, i64::try_from(at).unwrap_or(i64::MAX), &**key)?;
    }
    Ok((intent, envelope))
}
