//! The envelope of a booking network as a transport. `wire` encodes and decodes its content.
//!
//! Only messages can be sent; this transport refuses calls about tasks without a request. Every attempt to send the
//! same message over this transport carries the same timestamp, by which the network recognises a retry.

use super::{Line, Opened, mint, only_event, said_answer};
use crate::door::REFUSAL_BYTES_MAX;
use crate::envelope::{ANSWER_BYTES_MAX, Seal, seal, unseal};
use crate::{Error, Said, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use sabir_proto::agnt::Intent;
use sabir_proto::{Answer, Call, Fault, MessageId};
use sabir_wire::agnt::{Envelope, Moment, NETWORK, Unanswered, message, read_answer};
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
pub(super) struct Stamps(Mutex<(VecDeque<(MessageId, Moment)>, i64)>);

impl Stamps {
    fn of(&self, message: &MessageId) -> Moment {
        let mut stamps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, last) = &mut *stamps;
        if let Some((_, moment)) = known.iter().find(|(id, _)| id == message) {
            return *moment;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        *last = i64::try_from(since.as_micros()).unwrap_or(i64::MAX).max(last.saturating_add(1));
        let moment = Moment::from_nanos(last.saturating_mul(1000));
        if known.len() >= STAMPS_MAX {
            known.pop_front();
        }
        known.push_back((message.clone(), moment));
        moment
    }
}

pub(super) async fn ask(line: &Line, call: &Call) -> Result<Said<Answer>, Error> {
    let mut losses = Losses::new();
    let (intent, envelope) = write(line, call, &mut losses)?;
    let body = Bytes::from(envelope.write());
    let answer = line.request(Method::POST, address(line), headers(line), Some(body)).await?;
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let limit = if status.is_success() { ANSWER_BYTES_MAX } else { REFUSAL_BYTES_MAX };
    let body = answer.body("the answer", limit).await?;
    let transport = TransportCode::Http(status.as_u16());
    let refuse = |fault: Fault, after| Err(line.refused(fault, transport.clone(), after));
    let answer = match read_answer(&body, status.as_u16()) {
        Ok(answered) => {
            let key = line.attached.seal.as_deref().map(|key| key as &dyn Seal);
            let payload = unseal(answered.payload, key);
            let payload = payload.map_err(|why| Error::local(Fault::InvalidAgentResponse(why)))?;
            message::told(intent, &payload, &mut mint).map_err(Error::local)?
        }
        Err(Unanswered::Refused(problem)) => {
            let after = problem.retry_after.or(retry_after);
            match message::refused(intent, problem, &mut mint) {
                Ok(answer) => answer,
                Err(fault) => return refuse(fault, after),
            }
        }
        Err(Unanswered::Unknown { code, message, retryable: true }) => {
            return refuse(Fault::Unavailable(format!("{code}: {message}")), retry_after);
        }
        Err(Unanswered::Unknown { code, message, .. }) => {
            return refuse(Fault::UnsupportedOperation(format!("{code}: {message}")), retry_after);
        }
        Err(Unanswered::Nonsense(_)) if !status.is_success() => {
            return Err(line.bare_status(status, retry_after, &host));
        }
        Err(Unanswered::Nonsense(why)) => return Err(Error::local(Fault::InvalidAgentResponse(why))),
    };
    // The answer is not A2A, so the JSON is encoded from the value.
    Ok(said_answer(Dialect::V1, answer, None, losses))
}

pub(super) async fn open(line: &Arc<Line>, call: &Call) -> Result<Opened, Error> {
    only_event(Dialect::V1, ask(line, call).await?, None)
}

/// Previews a call without sending it.
pub(super) fn written(line: &Line, call: &Call) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let (_, envelope) = write(line, call, &mut Losses::new())?;
    Ok((Method::POST, address(line).to_string(), headers(line), Some(envelope.write())))
}

fn headers(line: &Line) -> HeaderMap {
    let mut headers = line.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

/// The URL of the network, without the sender parameter.
fn address(line: &Line) -> url::Url {
    let mut url = line.chosen.url.clone();
    url.set_query(None);
    url
}

fn write(line: &Line, call: &Call, losses: &mut Losses) -> Result<(Intent, Envelope), Error> {
    let (Call::Send(request) | Call::Stream(request)) = call else {
        let words = "a booking network has no tasks: it is sent messages, and answers them at once";
        return Err(Error::local(Fault::UnsupportedOperation(words.into())));
    };
    let (intent, payload) = message::asked(request, losses).map_err(Error::local)?;
    let sender = line.chosen.url.query_pairs().find(|(name, _)| name == FROM).map(|(_, value)| value.into_owned());
    let mut envelope = Envelope::new(sender.as_deref().unwrap_or(SENDER), intent, payload);
    envelope.to = line.chosen.interface.tenant.clone().unwrap_or_else(|| NETWORK.into());
    envelope.ttl_ms = TTL_MS;
    envelope.timestamp = Some(line.stamps.of(&request.message.message_id));
    if let Some(key) = &line.attached.seal {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let sender = envelope.from.clone();
        seal(&mut envelope, &sender, i64::try_from(at).unwrap_or(i64::MAX), &**key)?;
    }
    Ok((intent, envelope))
}
