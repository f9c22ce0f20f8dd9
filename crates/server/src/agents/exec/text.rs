//! Cuts bytes into chunks, lines and tails.

/// Bytes of standard error that are shown with a failure: the end, where programs say what went wrong.
const TAIL_BYTES_MAX: usize = 2 << 10;

/// The number of bytes at the end that are the beginning of an incomplete character.
pub(super) fn incomplete_char_bytes(bytes: &[u8]) -> usize {
    let length = |lead: u8| match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let lead = bytes.iter().rev().take(3).position(|b| *b & 0xc0 != 0x80);
    lead.map(|back| back + 1).filter(|held| length(bytes[bytes.len() - held]) > *held).unwrap_or(0)
}

/// The last line that is not blank; cut if it is long.
pub(super) fn last_line(text: &str) -> Option<&str> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(&line[..line.floor_char_boundary(TAIL_BYTES_MAX)])
}

/// Text that is safe to show on a terminal and in a log.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The last bytes of a long output.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let excess = self.bytes.len().saturating_sub(TAIL_BYTES_MAX);
        if excess > 0 {
            self.bytes.drain(..excess);
            self.cut = true;
        }
    }

    /// The text that was kept, without a cut line at its beginning if a whole line follows.
    pub(super) fn text(&self) -> String {
        let whole = self.bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
        let start = if self.cut && whole < self.bytes.len() { whole } else { 0 };
        printable(&self.bytes[start..]).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_not_broken() {
        for (bytes, held) in [
            (&b"ab"[..], 0),
            (b"a\xc3", 1),
            (b"a\xe6\x97", 2),
            (b"a\xe6", 1),
            (b"\xf0\x9f\xa6", 3),
            (b"a\xe6\x97\xa5", 0),
            // Not UTF-8: bytes that cannot become a character are not held back.
            (b"\x80\x80\x80\x80", 0),
            (b"a\xff", 0),
        ] {
            assert_eq!(incomplete_char_bytes(bytes), held, "{bytes:?}");
        }
    }

    #[test]
    fn a_tail_begins_with_a_whole_line_and_has_no_control_characters() {
        let mut tail = Tail::default();
        for n in 0..10_000 {
            tail.push(format!("\x1b[31mline {n}\r\n").as_bytes());
        }
        let text = tail.text();
        assert!(
            text.len() <= TAIL_BYTES_MAX && text.starts_with("[31mline 9") && text.ends_with("line 9999"),
            "{text}"
        );
        assert!(!text.contains(['\x1b', '\r']));
        let mut tail = Tail::default();
        tail.push(&b"x".repeat(100_000));
        assert_eq!(tail.text().len(), TAIL_BYTES_MAX);
    }

    #[test]
    fn the_last_line_is_the_last_with_something_on_it() {
        assert_eq!(last_line("a\nWhich day? \n\n  \n"), Some("Which day?"));
        assert_eq!(last_line("\n \n"), None);
        assert!(last_line(&"é".repeat(100_000)).unwrap().len() <= TAIL_BYTES_MAX);
    }
}
