//! Percent-encoding, both ways, and query parameters, for every binding that has paths.

use sabir_proto::Fault;
use std::borrow::Cow;
use std::fmt::Write as _;
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

/// Percent-decoding; the result must be UTF-8.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, Fault> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let broken = || Fault::invalid("", "the path or query is not properly percent-encoded");
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())).ok_or_else(broken)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| broken())?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| broken())
}

/// Percent-encodes all but the unreserved characters of RFC 3986, which is right in a path segment and in a query. A
/// colon must be encoded, or an id could end in a verb.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
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
