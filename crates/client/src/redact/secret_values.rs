//! The secret values, and a search for all of them in one pass.
//!
//! Each secret is searched in every form that it takes on its way: plain, percent-encoded, in JSON and in base64. The
//! text is read once, however many secrets there are: nearly all of its bytes begin no pattern, which one bit tells.

use super::REDACTED;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;
use std::ops::Range;

/// The length of the shortest value that is searched everywhere, in bytes. A shorter value appears in innocent words,
/// so it is searched only after the scheme of an `Authorization` header.
pub const SECRET_BYTES_MIN: usize = 8;
/// The length in bytes below which a value of letters and digits is searched as a whole word only: `password` is
/// hidden, and `passwords` is not.
pub const WORD_BYTES_MAX: usize = 16;
/// The length of the longest value that is searched, in bytes: no header is longer, and longer values are files.
const SECRET_BYTES_MAX: usize = 8192;
/// The length of the shortest line of a key file that is searched by itself, in characters.
const LINE_BYTES_MIN: usize = 16;
/// The number of short-lived credentials that are remembered. Very large hubs may use more at a time; there the oldest
/// ones are no longer searched.
const TEMPORARY_MAX: usize = 64;

/// A text to search for.
#[derive(Debug)]
struct Pattern {
    text: Box<str>,
    /// The pattern matches only where no letter or digit is beside it.
    is_word: bool,
}

/// All values to search for.
#[derive(Debug, Default)]
pub(super) struct SecretValues {
    /// Patterns by their first two bytes, longest first: a secret that contains another one is found before it.
    patterns: HashMap<[u8; 2], Vec<Pattern>>,
    /// One bit for each pair of bytes that begins a pattern; empty while there are no patterns.
    starts: Vec<u64>,
    known: HashSet<Box<str>>,
    temporary: VecDeque<Box<str>>,
    longest: usize,
}

impl SecretValues {
    /// Adds a secret. A secret of several lines is the content of a file, whose lines are added.
    pub(super) fn learn(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.contains(['\n', '\r']) {
            let is_key = |line: &&str| line.len() >= LINE_BYTES_MIN && line.bytes().all(is_base64);
            secret.lines().map(str::trim).filter(is_key).for_each(|line| self.learn_line(line));
        } else {
            self.learn_line(secret);
        }
    }

    fn learn_line(&mut self, secret: &str) {
        if secret.is_empty() || secret.len() > SECRET_BYTES_MAX || !self.known.insert(secret.into()) {
            return;
        }
        for scheme in ["Bearer", "bearer"] {
            self.add(&format!("{scheme} {secret}"), true);
        }
        if secret.len() < SECRET_BYTES_MIN {
            return;
        }
        let is_word = secret.len() < WORD_BYTES_MAX && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.add(secret, is_word);
        for form in encoded(secret).iter().filter(|form| form.len() >= SECRET_BYTES_MIN && *form != secret) {
            self.add(form, false);
        }
    }

    /// Adds a short-lived credential: only the last [`TEMPORARY_MAX`] are remembered, and only in plain form.
    pub(super) fn learn_temporary(&mut self, secret: &str) {
        let usable = (WORD_BYTES_MAX..=SECRET_BYTES_MAX).contains(&secret.len());
        if !usable || self.known.contains(secret) || self.temporary.iter().any(|known| **known == *secret) {
            return;
        }
        if self.temporary.len() == TEMPORARY_MAX
            && let Some(oldest) = self.temporary.pop_front()
        {
            self.remove(&oldest);
        }
        self.add(secret, false);
        self.temporary.push_back(secret.into());
    }

    fn add(&mut self, text: &str, is_word: bool) {
        let [first, second, ..] = *text.as_bytes() else { return };
        let bucket = self.patterns.entry([first, second]).or_default();
        if bucket.iter().any(|pattern| *pattern.text == *text) {
            return;
        }
        let at = bucket.partition_point(|pattern| pattern.text.len() > text.len());
        bucket.insert(at, Pattern { text: text.into(), is_word });
        self.starts.resize(1 << 10, 0);
        let pair = u16::from_be_bytes([first, second]);
        self.starts[usize::from(pair >> 6)] |= 1 << (pair & 63);
        self.longest = self.longest.max(text.len());
    }

    /// The bit of the pattern stays set, which costs only a look-up.
    fn remove(&mut self, text: &str) {
        if let [first, second, ..] = *text.as_bytes()
            && let Some(bucket) = self.patterns.get_mut(&[first, second])
        {
            bucket.retain(|pattern| *pattern.text != *text);
        }
    }

    /// The length of the secret at this position, if there is one.
    fn secret_length_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let [first, second, ..] = text[at..] else { return None };
        let pair = u16::from_be_bytes([first, second]);
        if self.starts[usize::from(pair >> 6)] & (1 << (pair & 63)) == 0 {
            return None;
        }
        let is_free = |beside: Option<&u8>| !beside.is_some_and(u8::is_ascii_alphanumeric);
        let stands = |pattern: &&Pattern| {
            text[at..].starts_with(pattern.text.as_bytes())
                && (!pattern.is_word
                    || (is_free(at.checked_sub(1).and_then(|before| text.get(before)))
                        && is_free(text.get(at + pattern.text.len()))))
        };
        self.patterns.get(&[first, second])?.iter().find(stands).map(|pattern| pattern.text.len())
    }

    /// The text with its secrets hidden.
    pub(super) fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.starts.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = text.as_bytes();
        let (mut clean, mut kept, mut at) = (String::new(), 0, 0);
        while at + 1 < bytes.len() {
            let Some(length) = self.secret_length_at(bytes, at) else {
                at += 1;
                continue;
            };
            // A pattern is text, so both of its ends are character boundaries.
            clean.push_str(&text[kept..at]);
            // The credential is hidden, its scheme is not.
            if let Some((scheme @ ("Bearer" | "bearer"), _)) = text[at..at + length].split_once(' ') {
                clean.push_str(scheme);
                clean.push(' ');
            }
            clean.push_str(REDACTED);
            at += length;
            kept = at;
        }
        if kept == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[kept..]);
        Cow::Owned(clean)
    }

    /// A text that comes in pieces, without the secrets that begin in one piece and end in another; `None` where there are none.
    /// What is left of such a secret is [`REDACTED`] in the piece where it began.
    pub(super) fn hide_across(&self, pieces: &[&str]) -> Option<Vec<String>> {
        if self.starts.is_empty() || pieces.len() < 2 {
            return None;
        }
        let joined = pieces.concat();
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut seam = 0;
        for piece in &pieces[..pieces.len() - 1] {
            seam += piece.len();
            let from = found.last().map_or(0, |last| last.end).max(seam.saturating_sub(self.longest));
            let across = |at: usize| {
                let end = at + self.secret_length_at(joined.as_bytes(), at)?;
                (end > seam).then_some(at..end)
            };
            found.extend((from..seam).find_map(across));
        }
        if found.is_empty() {
            return None;
        }
        let mut start = 0;
        let clean = pieces.iter().map(|piece| {
            let own = start..start + piece.len();
            start = own.end;
            let (mut clean, mut kept) = (String::new(), own.start);
            for secret in found.iter().filter(|secret| secret.start < own.end && secret.end > own.start) {
                if secret.start >= own.start {
                    clean.push_str(&joined[kept..secret.start]);
                    clean.push_str(REDACTED);
                }
                kept = secret.end.min(own.end);
            }
            clean.push_str(&joined[kept..own.end]);
            clean
        });
        Some(clean.collect())
    }

    /// The position at which to cut a text, so that no part of a secret at the end is left.
    pub(super) fn cut_before(&self, text: &str, end: usize) -> usize {
        if self.starts.is_empty() || end >= text.len() {
            return end;
        }
        let begins = |at: &usize| self.secret_length_at(text.as_bytes(), *at).is_some_and(|length| at + length > end);
        (end.saturating_sub(self.longest)..end).find(begins).unwrap_or(end)
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)
}

/// The encoded forms of a secret.
fn encoded(secret: &str) -> Vec<String> {
    let upper = [percent(secret, '+'), percent(secret, '~')];
    let lower = upper.clone().map(|form| lower_hex(&form));
    let mut forms = [upper, lower].concat();
    let quoted = json(secret);
    // JSON inside JSON, as in an error that quotes an error; and as ASCII-only writers encode it.
    forms.extend([json(&quoted), quoted.replace('/', r"\/"), ascii(&quoted), quoted]);
    // Inside a longer text, base64 of the same bytes has three alignments; each is searched without its first and last
    // characters.
    for shift in 0..3 {
        let bytes = [&b"\0\0\0"[..shift], secret.as_bytes()].concat();
        let from = [0, 2, 3][shift];
        let is_whole = bytes.len() % 3 == 0;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let to = if is_whole { text.len() } else { text.len() - 1 };
            forms.push(text[from..to].to_owned());
        }
    }
    forms
}

/// The text as the inside of a JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// The same with escapes for characters beyond ASCII.
fn ascii(quoted: &str) -> String {
    let mut text = String::new();
    for c in quoted.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(text, "\\u{unit:04x}"));
        }
    }
    text
}

/// Percent-encoded as in queries and forms. `also` stays unencoded, because encoders differ.
fn percent(secret: &str, also: char) -> String {
    let mut text = String::new();
    for byte in secret.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-_.".contains(c) || c == also {
            text.push(c);
        } else {
            _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The same with lower-case digits after each percent sign.
fn lower_hex(percent: &str) -> String {
    let mut pieces = percent.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Two digits follow each percent sign.
        let (digits, rest) = piece.split_at(2.min(piece.len()));
        _ = write!(text, "%{}{rest}", digits.to_ascii_lowercase());
    }
    text
}
