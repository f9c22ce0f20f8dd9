//! Event streams over HTTP (server-sent events).

use super::{Line, Numbered, jsonrpc, said_event};
use crate::door::Incoming;
use crate::{Error, Note, TransportCode};
use sabir_proto::Fault;
use sabir_wire::sse::{EVENT_BYTES_MAX, Parser};
use sabir_wire::{Dialect, Losses, v1, v03};
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
pub(crate) struct Events {
    pub(super) line: Arc<Line>,
    pub(super) answer: Incoming,
    pub(super) framing: Framing,
    pub(super) parser: Parser,
    pub(super) idle: Duration,
}

impl Events {
    pub(super) fn new(line: Arc<Line>, answer: Incoming, framing: Framing) -> Self {
        let idle = line.door.timeouts().idle;
        Self { line, answer, framing, parser: Parser::new(EVENT_BYTES_MAX), idle }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Numbered>, Error> {
        loop {
            let frame = self.parser.next().map_err(|e| Fault::InvalidAgentResponse(e.to_string()))?;
            if let Some(frame) = frame {
                // Some servers open or close a stream with an empty event.
                if frame.data.trim().is_empty() {
                    continue;
                }
                self.line.door.note(&Note::Frame { id: frame.id.as_deref(), data: &frame.data });
                return self.read(&frame.data).map(|said| Some(Numbered { id: frame.id, said }));
            }
            // The parser holds only an incomplete event.
            if !self.answer.share.hold(self.parser.held()) {
                return Err(Error::Crowded);
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

    fn read(&self, data: &str) -> Result<crate::Said<sabir_proto::TheirEvent>, Error> {
        let dialect = self.line.chosen.dialect;
        let mut losses = Losses::new();
        match &self.framing {
            Framing::JsonRpc(id) => {
                let result = jsonrpc::event(&self.line, id, data)?;
                let event = sabir_wire::read_event(dialect, result, &mut super::mint, &mut losses)?;
                Ok(said_event(dialect, event, Some(result), losses))
            }
            Framing::Bare => {
                // A stream that fails ends with an error object, which is decoded as a fault.
                let event = match dialect {
                    Dialect::V1 => v1::http::read_event(data),
                    _ => v03::rest::read_event(data.as_bytes(), self.line.files, &mut super::mint, &mut losses)
                        .map(|h| h.event),
                };
                let transport = TransportCode::Http(self.answer.status.as_u16());
                let event = event.map_err(|fault| self.line.refused(fault, transport, None))?;
                Ok(said_event(dialect, event, Some(data), losses))
            }
        }
    }
}
