//! Event streams over HTTP (server-sent events).

use super::{AgentTransport, NumberedEvent, event_response, jsonrpc};
use crate::http_client::IncomingResponse;
use crate::{Error, Observation, TransportCode};
use sabir_proto::Fault;
use sabir_wire::sse::{EVENT_BYTES_MAX, Parser};
use sabir_wire::{Losses, read_http_event};
use std::sync::Arc;
use std::time::Duration;

/// The content of a frame.
pub(crate) enum Framing {
    /// A JSON-RPC answer to the request with this id.
    JsonRpc(String),
    /// The event itself.
    Bare,
}

/// An open stream of events.
pub(crate) struct SseEvents {
    pub(super) transport: Arc<AgentTransport>,
    pub(super) answer: IncomingResponse,
    pub(super) framing: Framing,
    pub(super) parser: Parser,
    pub(super) idle: Duration,
}

impl SseEvents {
    pub(super) fn new(transport: Arc<AgentTransport>, answer: IncomingResponse, framing: Framing) -> Self {
        let idle = transport.http_client.timeouts().idle;
        Self { transport, answer, framing, parser: Parser::new(EVENT_BYTES_MAX), idle }
    }

    pub(super) async fn next(&mut self) -> Result<Option<NumberedEvent>, Error> {
        loop {
            let frame = self.parser.next().map_err(|e| Fault::InvalidAgentResponse(e.to_string()))?;
            if let Some(frame) = frame {
                // Some servers open or close a stream with an empty event.
                if frame.data.trim().is_empty() {
                    continue;
                }
                self.transport.http_client.observe(&Observation::Frame { id: frame.id.as_deref(), data: &frame.data });
                return self.read(&frame.data).map(|said| Some(NumberedEvent { id: frame.id, said }));
            }
            // The parser holds only an incomplete event.
            if !self.answer.share.hold(self.parser.buffered_bytes()) {
                return Err(Error::CapacityExceeded);
            }
            match self.answer.chunk(self.idle).await {
                Ok(Some(bytes)) => self.parser.push(&bytes),
                Ok(None) if self.parser.is_mid_event() => return Err(self.lost("the connection closed in mid-event")),
                Ok(None) => return Ok(None),
                Err(Error::Timeout { after, .. }) => {
                    return Err(self.lost(&format!("no sign of life for {} seconds", after.as_secs())));
                }
                Err(Error::Unreachable { reason, .. }) => return Err(self.lost(&reason)),
                Err(other) => return Err(other),
            }
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::StreamLost { task: None, reason: reason.into() }
    }

    fn read(&self, data: &str) -> Result<crate::AgentResponse<sabir_proto::WireEvent>, Error> {
        let dialect = self.transport.chosen.dialect;
        let mut losses = Losses::new();
        match &self.framing {
            Framing::JsonRpc(id) => {
                let result = jsonrpc::event_result(&self.transport, id, data)?;
                let event = sabir_wire::read_event(dialect, result, &mut super::new_message_id, &mut losses)?;
                Ok(event_response(dialect, event, Some(result), losses))
            }
            Framing::Bare => {
                let files = self.transport.files;
                let event = read_http_event(dialect, data, files, &mut super::new_message_id, &mut losses);
                let transport = TransportCode::Http(self.answer.status.as_u16());
                let event = event.map_err(|fault| self.transport.fault_error(fault, transport, None))?;
                Ok(event_response(dialect, event, Some(data), losses))
            }
        }
    }
}
