//! Redaction: what never appears in anything diagnostic, whatever flags are set.
//!
//! Two nets. The first knows places: headers, query parameters and members of bodies that hold secrets by their name.
//! The second knows values: every secret of this run is learnt when it is read, and wherever it shows up again (also in
//! base64 or percent-encoded) it is taken out. Nothing here can be switched off, so there is no switch to forget.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{PoisonError, RwLock};

/// What is shown instead.
pub const REDACTED: &str = "[redacted]";
/// Shorter values are not looked for: they would turn up in innocent words.
const SECRET_BYTES_MIN: usize = 8;
/// Headers whose first word is the scheme, which may be shown.
const SCHEMED: [&str; 2] = ["authorization", "proxy-authorization"];
/// Headers that are secrets throughout.
const SECRET_HEADERS: [&str; 8] = [
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "x-a2a-notification-token",
    "a2a-notification-token",
    sabir_proto::transfer::CLAIM_HEADER,
    // Good for minutes, at any agent.
    "x-xpr-signature",
];
/// Service parameters that may be shown; all others are hidden.
const OPEN_PARAMETERS: [&str; 6] =
    ["a2a-version", "a2a-extensions", "traceparent", "tracestate", "x-trace-id", "x-request-id"];
/// Members of bodies that hold secrets: OAuth's, and those of push configurations.
const SECRET_MEMBERS: [&str; 13] = [
    "access_token",
    "refresh_token",
    "id_token",
    "device_code",
    "client_secret",
    "client_assertion",
    "code_verifier",
    "password",
    "token",
    "credentials",
    "apiKey",
    "api_key",
    "claim_secret",
];
/// Beside those, what a form or a query hides. In JSON, `code` is the name of an error.
const SECRET_FIELDS: [&str; 2] = ["code", "assertion"];

/// What is known to be secret in this run.
#[derive(Default)]
pub struct Redactor {
    /// The values to look for, longest first.
    values: RwLock<Vec<String>>,
    /// Names of headers, parameters and cookies that hold secrets, in lower case.
    names: RwLock<BTreeSet<String>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// From now on this value is taken out of every text.
    pub fn learn(&self, secret: &str) {
        if secret.len() < SECRET_BYTES_MIN {
            return;
        }
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for form in forms(secret) {
            if form.len() >= SECRET_BYTES_MIN && !values.contains(&form) {
                values.push(form);
            }
        }
        // A secret that contains another one goes first, or its rest would stay.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// From now on a header, query parameter or cookie of this name is hidden.
    pub fn learn_name(&self, name: &str) {
        self.names.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_ascii_lowercase());
    }

    fn knows_name(&self, name: &str) -> bool {
        self.names.read().unwrap_or_else(PoisonError::into_inner).contains(&name.to_ascii_lowercase())
    }

    /// A text without the secrets of this run.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let mut clean = Cow::Borrowed(text);
        for value in values.iter().filter(|value| text.contains(value.as_str())) {
            clean = Cow::Owned(clean.replace(value.as_str(), REDACTED));
        }
        clean
    }

    /// The value of a header or of gRPC metadata.
    pub fn header(&self, name: &str, value: &str) -> String {
        let lower = name.to_ascii_lowercase();
        if SCHEMED.contains(&lower.as_str()) {
            return match value.split_once(' ') {
                Some((scheme, _)) => format!("{scheme} {REDACTED}"),
                None => REDACTED.to_owned(),
            };
        }
        if SECRET_HEADERS.contains(&lower.as_str()) || self.knows_name(&lower) {
            return REDACTED.to_owned();
        }
        self.text(value).into_owned()
    }

    /// The value of a service parameter: hidden unless it is known to be harmless.
    pub fn parameter(&self, name: &str, value: &str) -> String {
        let open = OPEN_PARAMETERS.contains(&name.to_ascii_lowercase().as_str());
        if open { self.text(value).into_owned() } else { REDACTED.to_owned() }
    }

    /// An address without user information and without secrets in its query. Any other text passes as it is.
    pub fn url(&self, url: &str) -> String {
        let Some((scheme, rest)) = url.split_once("://") else { return self.text(url).into_owned() };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let mut clean = format!("{scheme}://");
        match authority.rsplit_once('@') {
            Some((_, host)) => _ = write!(clean, "{REDACTED}@{host}"),
            None => clean += authority,
        }
        match tail.split_once('?') {
            None => clean += tail,
            Some((path, query)) => {
                let (query, fragment) = query.split_once('#').map_or((query, None), |(q, f)| (q, Some(f)));
                _ = write!(clean, "{path}?{}", self.form(query));
                if let Some(fragment) = fragment {
                    _ = write!(clean, "#{fragment}");
                }
            }
        }
        self.text(&clean).into_owned()
    }

    /// A body as it may be logged. What looks like neither JSON nor a form only loses the values we know.
    pub fn body(&self, body: &str) -> String {
        let start = body.trim_start();
        let clean = if start.starts_with(['{', '[']) || start.contains(": ") || start.starts_with("data:") {
            Cow::Owned(self.members(body))
        } else if is_form(start) {
            Cow::Owned(self.form(body))
        } else {
            Cow::Borrowed(body)
        };
        self.text(&clean).into_owned()
    }

    /// `a=b&c=d`
    fn form(&self, form: &str) -> String {
        let hidden =
            |name: &str| SECRET_MEMBERS.contains(&name) || SECRET_FIELDS.contains(&name) || self.knows_name(name);
        let fields = form.split('&').map(|field| match field.split_once('=') {
            Some((name, _)) if hidden(name) => format!("{name}={REDACTED}"),
            _ => field.to_owned(),
        });
        fields.collect::<Vec<_>>().join("&")
    }

    /// JSON, or something like it: every string that follows one of the names. Works on text, because what is logged may
    /// be cut short or broken.
    fn members(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('"') {
            let (name, after) = string(&rest[start + 1..]);
            let colon = after.trim_start().strip_prefix(':').map(str::trim_start);
            let hidden = SECRET_MEMBERS.contains(&name) || self.knows_name(name);
            match colon.and_then(|value| value.strip_prefix('"')) {
                Some(value) if hidden => {
                    let kept = rest.len() - value.len();
                    clean += &rest[..kept];
                    let (_, after) = string(value);
                    _ = write!(clean, "{REDACTED}\"");
                    rest = after;
                }
                _ => {
                    let kept = rest.len() - after.len();
                    clean += &rest[..kept];
                    rest = after;
                }
            }
        }
        clean + rest
    }
}

/// The contents of a JSON string whose opening quotation mark was read, and what follows it.
fn string(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

fn is_form(text: &str) -> bool {
    let name = |field: &str| {
        let name = field.split('=').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.%+[]".contains(c))
    };
    text.contains('=') && !text.contains(char::is_whitespace) && text.split('&').all(name)
}

/// What a secret may look like elsewhere.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), percent(secret, '+'), percent(secret, '~')];
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    forms.push(quoted.trim_matches('"').to_owned());
    // Inside a longer text, base64 of the same bytes has three faces; what is left of each without the seams is looked
    // for.
    for shift in 0..3 {
        let bytes = [&b"\0\0\0"[..shift], secret.as_bytes()].concat();
        let from = [0, 2, 3][shift];
        let whole = bytes.len() % 3 == 0;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let to = if whole { text.len() } else { text.len() - 1 };
            forms.push(text[from..to].to_owned());
        }
    }
    forms
}

/// Percent-encoded as in queries and forms. `also` stays as it is: writers differ.
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn a_known_secret_is_found_in_every_form() {
        let redactor = Redactor::default();
        let secret = "sk+live/42 é";
        redactor.learn(secret);
        for text in [
            format!("token {secret}!"),
            format!("Basic {}", STANDARD.encode(secret)),
            format!("Basic {}", STANDARD.encode(format!("user:{secret}"))),
            format!("Basic {}", STANDARD.encode(format!("use:{secret}:more"))),
            format!("Basic {}", STANDARD.encode(format!("us:{secret}"))),
            "?key=sk%2Blive%2F42%20%C3%A9&x=1".to_owned(),
        ] {
            assert!(redactor.text(&text).contains(REDACTED), "{text} -> {}", redactor.text(&text));
        }
        assert_eq!(redactor.text("nothing here"), "nothing here");
    }

    #[test]
    fn short_values_are_left_to_their_places() {
        let redactor = Redactor::default();
        redactor.learn("abc");
        assert_eq!(redactor.text("abc"), "abc");
        assert_eq!(redactor.header("Authorization", "Bearer abc"), "Bearer [redacted]");
    }

    #[test]
    fn a_longer_secret_goes_first() {
        let redactor = Redactor::default();
        redactor.learn("12345678");
        redactor.learn("12345678-and-more");
        assert_eq!(redactor.text("12345678-and-more"), REDACTED);
    }

    #[test]
    fn headers_and_parameters_are_known_by_name() {
        let redactor = Redactor::default();
        redactor.learn_name("X-Ledger-Key");
        for (name, value, shown) in [
            ("Authorization", "Bearer abc", "Bearer [redacted]"),
            ("authorization", "abc", "[redacted]"),
            ("Set-Cookie", "a=b", "[redacted]"),
            ("x-ledger-key", "k", "[redacted]"),
            ("Content-Type", "application/json", "application/json"),
        ] {
            assert_eq!(redactor.header(name, value), shown, "{name}");
        }
        assert_eq!(redactor.parameter("X-Anything", "v"), REDACTED);
        assert_eq!(redactor.parameter("traceparent", "00-1"), "00-1");
    }

    #[test]
    fn addresses_lose_what_is_secret() {
        let redactor = Redactor::default();
        redactor.learn_name("key");
        for (url, shown) in [
            ("https://a.example/x?key=1&b=2", "https://a.example/x?key=[redacted]&b=2"),
            ("https://u:p@a.example:8443/x", "https://[redacted]@a.example:8443/x"),
            ("https://a.example?access_token=1#top", "https://a.example?access_token=[redacted]#top"),
            ("./card.json", "./card.json"),
            ("https://a.example/x#id", "https://a.example/x#id"),
        ] {
            assert_eq!(redactor.url(url), shown);
        }
    }

    #[test]
    fn bodies_lose_tokens_and_keep_the_rest() {
        let redactor = Redactor::default();
        for (body, shown) in [
            (
                r#"{"access_token" : "a\"b","expires_in":3,"x":"y"}"#,
                r#"{"access_token" : "[redacted]","expires_in":3,"x":"y"}"#,
            ),
            (
                r#"{"token":"t","authentication":{"scheme":"Bearer","credentials":"c"}}"#,
                r#"{"token":"[redacted]","authentication":{"scheme":"Bearer","credentials":"[redacted]"}}"#,
            ),
            (r#"{"error":{"code":-32001,"reason":"code"}}"#, r#"{"error":{"code":-32001,"reason":"code"}}"#),
            (r#"data: {"refresh_token":"cut"#, r#"data: {"refresh_token":"[redacted]""#),
            ("grant_type=x&client_secret=s&code=c", "grant_type=x&client_secret=[redacted]&code=[redacted]"),
            ("just text, a = b", "just text, a = b"),
        ] {
            assert_eq!(redactor.body(body), shown);
        }
    }
}
