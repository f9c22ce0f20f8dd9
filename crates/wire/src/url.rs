//! Percent-encoding, both ways, and query parameters, for every binding that has paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sabir_proto::Fault;
use std::borrow::Cow;
use std::str::FromStr;

/// Query parameters, decoded. Unknown ones are ignored, one given twice is an error.
pub(crate) struct QueryParameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// The number of parameters that a query may have; the largest operation has eight.
const PARAMETERS_MAX: usize = 64;

impl<'a> QueryParameters<'a> {
    pub(crate) fn read(query: &'a str) -> Result<Self, Fault> {
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode_form(name)?;
            if pairs.iter().any(|(seen, _)| *seen == name) {
                return Err(Fault::invalid(name, "is given twice"));
            }
            if pairs.len() == PARAMETERS_MAX {
                return Err(Fault::invalid("", format!("more than {PARAMETERS_MAX} query parameters")));
            }
            pairs.push((name, decode_form(value)?));
        }
        Ok(Self(pairs))
    }

    /// A parameter by any of its spellings; two of them at once are an error.
    pub(crate) fn text(&self, names: &[&str]) -> Result<Option<String>, Fault> {
        let mut found = self.0.iter().filter(|(name, _)| names.contains(&&**name)).map(|(_, value)| value);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Fault::invalid(names[0], "is given twice")),
            (value, None) => Ok(value.map(|value| value.clone().into_owned())),
        }
    }

    /// A parameter that is a whole number; an empty one counts as absent.
    pub(crate) fn number<T: FromStr>(&self, names: &[&str]) -> Result<Option<T>, Fault> {
        match self.text(names)?.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| Fault::invalid(names[0], "must be a whole number")),
        }
    }
}

fn decode_form(text: &str) -> Result<Cow<'_, str>, Fault> {
    if !text.contains('+') {
        return decode(text);
    }
    decode(&text.replace('+', " ")).map(|decoded| Cow::Owned(decoded.into_owned()))
}

/// Percent-decoding; the result must be UTF-8. The library passes a broken sequence through, and we refuse it.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, Fault> {
    let broken = || Fault::invalid("", "the path or query is not properly percent-encoded");
    let is_whole = |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_whole) {
        return Err(broken());
    }
    percent_decode_str(text).decode_utf8().map_err(|_| broken())
}

/// The unreserved characters of RFC 3986 stay as they are.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes for a path segment or a query. A colon must be encoded, or an id could end in a verb.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, &ENCODED).to_string()
}

/// Writes a query: with its question mark, or empty without parameters.
#[derive(Default)]
pub(crate) struct QueryWriter(String);

impl QueryWriter {
    pub(crate) fn add(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            self.0.push_str(&encode(&value.to_string()));
        }
    }

    /// Adds a text parameter, unless it is empty.
    pub(crate) fn add_text(&mut self, name: &str, value: &str) {
        self.add(name, Some(value).filter(|value| !value.is_empty()));
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        for text in ["", "a-b.c_d~e", "a/b:cancel", "日本 %+&=?#", "\0\u{7f}"] {
            let encoded = encode(text);
            assert!(encoded.bytes().all(|b| b.is_ascii_graphic() && !b"/:?#&=+ ".contains(&b)), "{encoded}");
            assert_eq!(decode(&encoded).unwrap(), text);
        }
        for bad in ["%", "%4", "%zz", "%+1", "%ff", "a%é"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }
}
