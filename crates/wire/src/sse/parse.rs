//! Parses an event stream for a client: takes bytes in any pieces, returns whole frames.
//!
//! The rules are those of the HTML standard (§9.2.6). A line ends at LF, CR or CRLF, also where a chunk cuts between
//! the two. A blank line ends an event, and an event without a line of data does not count. An event, its id included,
//! counts as seen only when its blank line has come: a client that resumes after half of an event must get it again.
//!
//! Two rules are stricter than in a browser. Bytes that are not UTF-8 are refused and not repaired, because the text is
//! JSON whose values the client relies on. And an event that grows past the limit is refused.

use std::mem;

/// The usual limit of one event, in bytes: the largest task that our own server keeps, and an envelope around it.
pub const EVENT_BYTES_MAX: usize = 65 << 20;
/// The size of the buffer that is kept between two events.
const IDLE_BUFFER_BYTES_MAX: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The id of this event. A client resumes from [`Parser::last_id`] instead.
    pub id: Option<String>,
    /// The type of the event; `None` is `message`.
    pub event: Option<String>,
    /// The milliseconds to wait before connecting again, where this event says so.
    pub retry: Option<u64>,
    /// The lines of data, joined.
    pub data: String,
}

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is longer than the limit.
    #[error("an event of the stream is longer than {0} bytes")]
    TooLong(usize),
    /// The bytes are not UTF-8.
    #[error("the stream is not UTF-8")]
    NotText,
}

/// Takes bytes as they arrive and returns each event when it ends.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    /// The bytes that have arrived. Those before `line` are parsed; `line..seen` has no end of line in it.
    buffer: Vec<u8>,
    line: usize,
    seen: usize,
    /// Whether no line has been read yet, so a byte order mark may come.
    at_start: bool,
    /// Whether a CR ended the last line; an LF that comes next belongs to it.
    after_cr: bool,
    event: PendingEvent,
    last_id: Option<String>,
    retry: Option<u64>,
    failed: Option<SseError>,
}

/// The event whose blank line has not come yet.
#[derive(Debug, Default)]
struct PendingEvent {
    frame: Frame,
    has_data: bool,
    /// The bytes of its lines so far; comments are not part of any event.
    bytes: usize,
}

impl Parser {
    /// A parser for a stream from its beginning. All lines of an event together may have `limit` bytes;
    /// [`EVENT_BYTES_MAX`] is the usual choice.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            line: 0,
            seen: 0,
            at_start: true,
            after_cr: false,
            event: PendingEvent::default(),
            last_id: None,
            retry: None,
            failed: None,
        }
    }

    /// Takes the bytes that have arrived. Call [`Parser::next`] until it has no more events before the next piece: only
    /// then does the limit bound the memory used here.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.drain(..self.line);
        self.seen -= self.line;
        self.line = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event; `None` until more bytes come. After an error, every call returns that error.
    #[expect(clippy::should_implement_trait, reason = "no iterator: after the last one there may be another")]
    pub fn next(&mut self) -> Result<Option<Frame>, SseError> {
        match self.failed {
            Some(failed) => Err(failed),
            None => self.advance().inspect_err(|failed| {
                self.failed = Some(*failed);
                self.buffer = Vec::new();
                (self.line, self.seen) = (0, 0);
                self.event = PendingEvent::default();
            }),
        }
    }

    /// The id to resume after: that of the last event that was returned, or of an earlier one if it had none.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The milliseconds to wait before connecting again, if the stream has said so, in an event or between events.
    pub const fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Whether part of an event has come without its end: a stream that stops here broke off within an event.
    pub fn is_mid_event(&self) -> bool {
        let rest = self.rest();
        self.event.bytes > 0 || (!rest.is_empty() && rest[0] != b':')
    }

    /// The bytes of memory in use: for an event whose end has not come, and the buffer that earlier events needed.
    pub const fn buffered_bytes(&self) -> usize {
        self.event.bytes + self.buffer.capacity()
    }

    /// Frees the memory that a large event needed, once it has been read.
    fn shrink(&mut self) {
        if self.buffer.capacity() > IDLE_BUFFER_BYTES_MAX && self.rest().len() <= IDLE_BUFFER_BYTES_MAX / 2 {
            self.buffer.drain(..self.line);
            self.seen -= self.line;
            self.line = 0;
            self.buffer.shrink_to(IDLE_BUFFER_BYTES_MAX);
        }
    }

    fn advance(&mut self) -> Result<Option<Frame>, SseError> {
        loop {
            if self.after_cr && self.line < self.buffer.len() {
                self.after_cr = false;
                if self.buffer[self.line] == b'\n' {
                    self.line += 1;
                    self.seen = self.line;
                }
            }
            let Some(length) = self.buffer[self.seen..].iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.seen = self.buffer.len();
                return if self.event.bytes + self.rest().len() > self.limit {
                    Err(SseError::TooLong(self.limit))
                } else {
                    self.shrink();
                    Ok(None)
                };
            };
            let end = self.seen + length;
            let from = self.line;
            (self.line, self.seen) = (end + 1, end + 1);
            self.after_cr = self.buffer[end] == b'\r';
            let mut line = &self.buffer[from..end];
            if mem::take(&mut self.at_start) {
                line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            }
            if line.is_empty() {
                if let Some(frame) = self.dispatch() {
                    return Ok(Some(frame));
                }
            } else if line[0] != b':' {
                self.event.bytes += line.len();
                if self.event.bytes > self.limit {
                    return Err(SseError::TooLong(self.limit));
                }
                let line = str::from_utf8(line).map_err(|_| SseError::NotText)?;
                if let Some(retry) = self.event.field(line) {
                    self.retry = Some(retry);
                }
            } else if line.len() > self.limit {
                return Err(SseError::TooLong(self.limit));
            }
        }
    }

    /// Ends the event at a blank line. Its id counts even if the event has no data.
    fn dispatch(&mut self) -> Option<Frame> {
        let PendingEvent { frame, has_data, .. } = mem::take(&mut self.event);
        if let Some(id) = &frame.id {
            // An empty id clears the earlier one.
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        has_data.then_some(frame)
    }

    /// The bytes of the line that has not ended.
    fn rest(&self) -> &[u8] {
        let rest = &self.buffer[self.line..];
        let rest = if self.after_cr { rest.strip_prefix(b"\n").unwrap_or(rest) } else { rest };
        if self.at_start { rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest) } else { rest }
    }
}

impl PendingEvent {
    /// Reads one line. A `retry` time is returned at once, because it is about the stream and not about the event.
    fn field(&mut self, line: &str) -> Option<u64> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "event" => self.frame.event = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|b| b.is_ascii_digit()) => {
                let retry = value.parse().ok();
                self.frame.retry = retry.or(self.frame.retry);
                return retry;
            }
            // The standard says to ignore unknown fields.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(parser: &mut Parser, bytes: &[u8]) -> Vec<Frame> {
        parser.push(bytes);
        std::iter::from_fn(|| parser.next().unwrap()).collect()
    }

    fn all(text: &str) -> Vec<Frame> {
        read(&mut Parser::new(1000), text.as_bytes())
    }

    fn data(text: &str) -> Vec<String> {
        all(text).into_iter().map(|frame| frame.data).collect()
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(data("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
        assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
        assert_eq!(data("data:test\n\ndata: test\n\n"), ["test", "test"]);
        assert_eq!(data("data:  two spaces\n\n"), [" two spaces"]);
        let frames =
            all(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n");
        assert_eq!(frames[0], Frame { id: Some("1".into()), data: "first event".into(), ..Frame::default() });
        assert_eq!(frames[1], Frame { id: Some(String::new()), data: "second event".into(), ..Frame::default() });
        assert_eq!(frames[2], Frame { data: " third event".into(), ..Frame::default() });
    }

    #[test]
    fn lines_end_in_three_ways_and_a_mark_may_come_first() {
        assert_eq!(data("\u{feff}data: a\r\rdata: b\n\ndata: c\r\n\r\ndata: d\r\n\n"), ["a", "b", "c", "d"]);
        assert_eq!(data("\u{feff}\u{feff}data: a\n\n"), [""; 0], "only one mark is one");
        assert_eq!(data("data: a\n\n\u{feff}data: b\n\n"), ["a"], "and only at the beginning");
    }

    #[test]
    fn a_carriage_return_ends_an_event_without_waiting_for_more() {
        let mut parser = Parser::new(100);
        assert_eq!(read(&mut parser, b"data: a\r\n\r").len(), 1);
        assert!(!parser.is_mid_event());
        assert_eq!(read(&mut parser, b"\ndata: b\r"), []);
        assert_eq!(read(&mut parser, b"\n\r\n").len(), 1);
    }

    #[test]
    fn fields_that_say_nothing_are_passed_over() {
        let frames = all("event: a\nevent:\nid: 1\nid: 2\0\nretry: 5x\nretry:\nother: x\nDATA: x\ndata: a\n\n");
        assert_eq!(frames, [Frame { id: Some("1".into()), data: "a".into(), ..Frame::default() }]);
        assert_eq!(all("event: x\n\ndata: a\n\n")[0].event, None, "an event that is none leaves no type behind");
        assert_eq!(all("retry: 7\nretry: 99999999999999999999\ndata: a\n\n")[0].retry, Some(7));
    }

    #[test]
    fn an_id_counts_when_its_event_is_whole_and_stays() {
        let mut parser = Parser::new(100);
        read(&mut parser, b"retry: 10\n\nid: 7\ndata: a\n");
        assert_eq!((parser.last_id(), parser.retry(), parser.is_mid_event()), (None, Some(10), true));
        read(&mut parser, b"\ndata: b\n\n");
        assert_eq!(parser.last_id(), Some("7"));
        read(&mut parser, b"id: 8\n\n");
        assert_eq!(parser.last_id(), Some("8"), "even of an event without data");
        read(&mut parser, b"id:\ndata: c\n\n");
        assert_eq!(parser.last_id(), None);
    }

    #[test]
    fn half_an_event_is_told_from_quiet() {
        for (text, mid) in [
            ("", false),
            ("\u{feff}", false),
            ("data: a\n\n", false),
            ("data: a\n\n: keep-al", false),
            ("data: a\n\n: keep-alive\n", false),
            ("data: a\n", true),
            ("d", true),
            ("data: a\n: comment\n", true),
            ("id: 1\n", true),
        ] {
            let mut parser = Parser::new(100);
            read(&mut parser, text.as_bytes());
            assert_eq!(parser.is_mid_event(), mid, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_or_no_text_is_refused_for_good() {
        for (bytes, problem) in [
            (&b"data: 0123456789"[..], SseError::TooLong(10)),
            (b"data: 0123456789\n\n", SseError::TooLong(10)),
            (b"data: 1\ndata: 2\n", SseError::TooLong(10)),
            (b":0123456789\n", SseError::TooLong(10)),
            (b"data: \xFF\n", SseError::NotText),
            (b"data: \xC3\n", SseError::NotText),
        ] {
            let mut parser = Parser::new(10);
            parser.push(bytes);
            assert_eq!(parser.next(), Err(problem));
            parser.push(b"\n\ndata: a\n\n");
            assert_eq!(parser.next(), Err(problem));
            assert!(!parser.is_mid_event());
        }
        let mut parser = Parser::new(10);
        for _ in 0..100 {
            assert_eq!(read(&mut parser, b": comment\ndata: a\n\n: \xFF\n").len(), 1, "a stream may be long");
            assert!(parser.buffer.len() < 100);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            lines in vec(
                prop_oneof![
                    Just("data"), Just("data: a"), Just("data:é\u{1F980}"), Just(": c"), Just("id: 1"), Just("id"),
                    Just("event: e"), Just("retry: 5"), Just(""), Just(""), Just("\u{feff}data: b"),
                ],
                0..20,
            ),
            ends in vec(prop_oneof![Just("\n"), Just("\r"), Just("\r\n")], 20),
            cuts in vec(0_usize..300, 0..20),
        ) {
            let text: String = lines.iter().zip(&ends).flat_map(|(line, end)| [*line, *end]).collect();
            let mut whole = Parser::new(1000);
            let expected = read(&mut whole, text.as_bytes());

            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut parser = Parser::new(1000);
            let frames: Vec<Frame> =
                cuts.windows(2).flat_map(|cut| read(&mut parser, &text.as_bytes()[cut[0]..cut[1]])).collect();
            prop_assert_eq!(frames, expected);
            prop_assert_eq!(parser.last_id(), whole.last_id());
            prop_assert_eq!(parser.retry(), whole.retry());
            prop_assert_eq!(parser.is_mid_event(), whole.is_mid_event());
        }

        #[test]
        fn nothing_that_arrives_makes_it_stumble(chunks in vec(vec(any::<u8>(), 0..40), 0..10)) {
            let mut parser = Parser::new(50);
            for chunk in chunks {
                parser.push(&chunk);
                while let Ok(Some(_)) = parser.next() {}
            }
        }
    }

    #[test]
    fn what_a_large_event_needed_is_counted_and_given_back() {
        const LARGE: usize = 4 << 20;
        let mut parser = Parser::new(EVENT_BYTES_MAX);
        for text in [format!("data: {}", " ".repeat(LARGE)), format!(": {}", "c".repeat(LARGE))] {
            parser.push(text.as_bytes());
            assert!(parser.next().unwrap().is_none() && parser.buffered_bytes() >= LARGE);
            parser.push(b"\n\n");
            while parser.next().unwrap().is_some() {}
            assert!(parser.buffered_bytes() <= IDLE_BUFFER_BYTES_MAX, "{}", parser.buffered_bytes());
        }
        parser.push(b"data: {}\n\n");
        assert_eq!(parser.next().unwrap().unwrap().data, "{}");
    }
}
