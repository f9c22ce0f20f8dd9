//! The body of an answer that the interceptor alters: it breaks streams and replaces states by unknown ones.

use super::control::{DemoControl, InjectedFault, contains};
use crate::body::{Body, BodyError};
use bytes::Bytes;
use http_body::{Body as _, Frame};
use regex::bytes::{Captures, Regex};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// How long the first half of a broken event has to reach the client before the connection closes.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// A body that may break off.
#[derive(Debug)]
pub(super) struct AlteredBody {
    inner: Body,
    control: Arc<DemoControl>,
    encoding: Encoding,
    /// Whether it is a stream; only streams break.
    streams: bool,
    /// The first frame, where `peek` has taken it out of `inner`.
    first: Option<Result<Frame<Bytes>, BodyError>>,
    /// Whether a frame has passed: a stream breaks only after its first frame.
    begun: bool,
    cut: Option<Pin<Box<Sleep>>>,
}

impl AlteredBody {
    pub(super) fn new(inner: Body, control: Arc<DemoControl>, encoding: Encoding, streams: bool) -> Self {
        Self { inner, control, encoding, streams, first: None, begun: false, cut: None }
    }

    /// The bytes that are ready now, without a wait.
    pub(super) async fn peek(&mut self) -> Option<&[u8]> {
        let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut self.inner).poll_frame(cx))).await;
        if let Poll::Ready(frame) = at_once {
            self.first = frame;
        }
        self.first.as_ref()?.as_ref().ok()?.data_ref().map(|data| &**data)
    }

    fn alter(&mut self, data: &Bytes) -> Bytes {
        if self.streams && self.begun && self.control.take(InjectedFault::Cut, data) {
            self.cut = Some(Box::pin(tokio::time::sleep(LAST_WORDS)));
            return data.slice(..data.len() / 2);
        }
        self.begun = true;
        hide_state(data, &self.control.injected(InjectedFault::Blur), self.encoding)
    }
}

impl http_body::Body for AlteredBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.cut {
            ready!(pause.as_mut().poll(cx));
            // HTTP/1.1 closes the connection for this, HTTP/2 resets the stream.
            return Poll::Ready(Some(Err(BodyError::aborted("the demo breaks this stream"))));
        }
        let frame = match this.first.take() {
            Some(frame) => Some(frame),
            None => ready!(Pin::new(&mut this.inner).poll_frame(cx)),
        };
        let pass = |frame: Frame<Bytes>| match frame.into_data() {
            Ok(data) => Frame::data(this.alter(&data)),
            Err(trailers) => trailers,
        };
        Poll::Ready(frame.map(|frame| frame.map(pass)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.cut.is_none() && self.inner.is_end_stream()
    }
}

/// Replaces the open states of these tasks by the unknown state.
pub(super) fn hide_state(data: &Bytes, tasks: &[Arc<str>], script: Encoding) -> Bytes {
    if !tasks.iter().any(|task| contains(data, task)) {
        return data.clone();
    }
    match script {
        Encoding::Json => hide_state_in_json(data, tasks),
        Encoding::Protobuf => hide_state_in_protobuf(data, tasks),
    }
}

/// The id of a task, and in the same object its status: in all dialects nothing between them has a brace.
static STATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?x) "(?<id>[0-9a-f-]{36})" (?<between>[^{}\[\]]*"status":\{"state":)
           "(?<state>TASK_STATE_WORKING|TASK_STATE_SUBMITTED|working|submitted)""#,
    )
    .ok()
});

fn hide_state_in_json(data: &Bytes, tasks: &[Arc<str>]) -> Bytes {
    let Some(state) = STATE.as_ref() else { return data.clone() };
    let blurred = state.replace_all(data, |found: &Captures<'_>| {
        let word: &[u8] = match &found["state"] {
            _ if !tasks.iter().any(|task| task.as_bytes() == &found["id"]) => return found[0].to_vec(),
            one if one.starts_with(b"TASK_STATE_") => b"TASK_STATE_UNSPECIFIED",
            _ => b"unknown",
        };
        [b"\"", &found["id"], b"\"", &found["between"], b"\"", word, b"\""].concat()
    });
    Bytes::from(blurred.into_owned())
}

/// `Task` and `TaskStatusUpdateEvent` begin alike, in 1.0 as in 0.3: id (1), context (2), status (3), whose first
/// member is the state. It is overwritten in place, so that no length changes.
fn hide_state_in_protobuf(data: &Bytes, tasks: &[Arc<str>]) -> Bytes {
    const CONTEXT: u8 = 0x12;
    const STATUS: u8 = 0x1a;
    const STATE: u8 = 0x08;
    /// `SUBMITTED` and `WORKING`.
    const OPEN: [u8; 2] = [1, 2];
    let mut blurred = data.to_vec();
    for task in tasks {
        let ends = data.windows(task.len()).enumerate().filter(|(_, window)| *window == task.as_bytes());
        for end in ends.map(|(start, _)| start + task.len()) {
            let state = length(data, end, CONTEXT)
                .and_then(|(context, bytes)| length(data, context + bytes, STATUS))
                .and_then(|(status, _)| (data.get(status) == Some(&STATE)).then_some(status + 1));
            if let Some(byte) = state.and_then(|at| blurred.get_mut(at)).filter(|byte| OPEN.contains(byte)) {
                *byte = 0;
            }
        }
    }
    blurred.into()
}

/// Reads a tag and a length; returns where the field's content begins, and its length.
fn length(data: &[u8], at: usize, tag: u8) -> Option<(usize, usize)> {
    (data.get(at) == Some(&tag)).then_some(())?;
    let mut length = 0;
    // Four bytes of seven bits are more than any frame has.
    for place in 0..4 {
        let byte = *data.get(at + 1 + place)?;
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some((at + 2 + place, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01900000-0000-7000-8000-000000000001";
    const OTHER: &str = "01900000-0000-7000-8000-000000000002";

    fn json(text: &str) -> String {
        let blurred = hide_state(&Bytes::copy_from_slice(text.as_bytes()), &[ID.into()], Encoding::Json);
        String::from_utf8(blurred.to_vec()).unwrap()
    }

    #[test]
    fn open_states_of_one_task_are_blurred_in_json() {
        let task = |id: &str, state: &str| format!(r#"{{"id":"{id}","contextId":"c","status":{{"state":"{state}"}}}}"#);
        assert_eq!(json(&task(ID, "TASK_STATE_WORKING")), task(ID, "TASK_STATE_UNSPECIFIED"));
        assert_eq!(json(&task(ID, "submitted")), task(ID, "unknown"));
        let both = |a: &str, b: &str| format!("[{},{}]", task(ID, a), task(OTHER, b));
        assert_eq!(json(&both("working", "working")), both("unknown", "working"));
        for same in [task(ID, "TASK_STATE_COMPLETED"), task(OTHER, "TASK_STATE_WORKING")] {
            assert_eq!(json(&same), same);
        }
        let history = format!(r#"[{{"taskId":"{ID}","parts":[]}},{}]"#, task(OTHER, "working"));
        assert_eq!(json(&history), history);
    }

    /// A task as gRPC has it: its id, its context, a status with some words.
    fn task(id: &str, state: u8, words: usize) -> Vec<u8> {
        let status = [&[0x08, state, 0x12][..], &length_of(words), &vec![b'w'; words]].concat();
        [b"\x0a\x24", id.as_bytes(), b"\x12\x01c\x1a", &length_of(status.len())[..], &status].concat()
    }

    fn length_of(bytes: usize) -> Vec<u8> {
        let byte = |n: usize| u8::try_from(n).unwrap();
        if bytes < 0x80 { vec![byte(bytes)] } else { vec![byte(bytes & 0x7f) | 0x80, byte(bytes >> 7)] }
    }

    #[test]
    fn open_states_of_one_task_are_blurred_in_protobuf() {
        let check = |from: Vec<u8>, to: Vec<u8>| {
            assert_eq!(hide_state(&Bytes::from(from), &[ID.into()], Encoding::Protobuf), Bytes::from(to));
        };
        for words in [3, 300] {
            check(task(ID, 2, words), task(ID, 0, words));
            check(task(ID, 1, words), task(ID, 0, words));
            check(task(ID, 3, words), task(ID, 3, words));
            check(task(OTHER, 2, words), task(OTHER, 2, words));
            let two = |a, b| [task(OTHER, a, words), task(ID, b, words)].concat();
            check(two(2, 2), two(2, 0));
        }
        // An id at the very end, and one in the middle of something else.
        check(ID.into(), ID.into());
        check([ID.as_bytes(), b"\x12\xff\xff"].concat(), [ID.as_bytes(), b"\x12\xff\xff"].concat());
    }
}
