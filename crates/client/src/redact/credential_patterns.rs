//! Credentials that are recognised by their pattern, also those of other parties: after an HTTP scheme, and tokens.

use super::REDACTED;
use std::borrow::Cow;

/// The length of the shortest credential, in characters: `Bearer authentication` is two words.
const CREDENTIAL_CHARS_MIN: usize = 16;
/// The length of the shortest JSON Web Token, in characters.
const TOKEN_CHARS_MIN: usize = 40;
/// Hides credentials after a scheme: long texts that are not words.
pub(super) fn credentials_by_form(text: &str) -> Cow<'_, str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_credential = |run: &str| run.len() >= CREDENTIAL_CHARS_MIN && run.bytes().any(|byte| byte.is_ascii_digit());
    let mut clean = Cow::Borrowed(text);
    for scheme in ["earer ", "asic "] {
        let next = hide_runs(&clean, scheme, scheme.len(), is_part, is_credential);
        if let Cow::Owned(next) = next {
            clean = Cow::Owned(next);
        }
    }
    clean
}

/// Hides JSON Web Tokens: three pieces of base64, the first of which is a JSON object.
pub(super) fn tokens_by_form(text: &str) -> Cow<'_, str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_token = |run: &str| run.len() >= TOKEN_CHARS_MIN && run.matches('.').count() >= 2;
    hide_runs(text, "eyJ", 0, is_part, is_token)
}

/// Hides runs of certain bytes that begin `skip` bytes after a mark.
fn hide_runs<'a>(
    text: &'a str,
    mark: &str,
    skip: usize,
    is_part: impl Fn(u8) -> bool,
    hidden: impl Fn(&str) -> bool,
) -> Cow<'a, str> {
    let (mut clean, mut kept, mut from) = (String::new(), 0, 0);
    while let Some(found) = text[from..].find(mark) {
        let start = from + found + skip;
        let length = text.as_bytes()[start..].iter().take_while(|byte| is_part(**byte)).count();
        // Only ASCII was counted, so both ends are character boundaries.
        if hidden(&text[start..start + length]) {
            clean.push_str(&text[kept..start]);
            clean.push_str(REDACTED);
            kept = start + length;
        }
        from = (start + length).max(from + found + mark.len());
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[kept..]);
    Cow::Owned(clean)
}
