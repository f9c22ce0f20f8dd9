//! Redaction: removes secrets from all diagnostic output, whatever flags are set.
//!
//! There are three filters. The first knows places: headers, query parameters and body members whose names indicate
//! secrets. The second knows values: every secret of this process is registered when it is read, and is removed
//! wherever it appears (also in base64, in JSON or percent-encoded). The third knows patterns: the text after `Bearer`
//! or `Basic`, and JSON Web Tokens. Redaction cannot be switched off.
//!
//! A process has one redactor, [`process_redactor`], as it has one log. Configuration, credentials and token issuers register
//! their secrets with it; logs, wire records, errors and the messages of remote agents pass through it.

mod agent_text;
mod credential_patterns;
mod secret_values;

pub use agent_text::Redact;
use credential_patterns::{credentials_by_form, tokens_by_form};
use secret_values::SecretValues;
pub use secret_values::{SECRET_BYTES_MIN, WORD_BYTES_MAX};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";
/// Headers that a wire record shows; the values of all others are hidden.
const OPEN_HEADERS: [&str; 33] = [
    "a2a-extensions",
    "a2a-version",
    "accept",
    "accept-encoding",
    "access-control-allow-origin",
    "access-control-request-headers",
    "access-control-request-method",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "grpc-message",
    "grpc-status",
    "grpc-timeout",
    "host",
    "if-none-match",
    "last-event-id",
    "origin",
    "retry-after",
    "server",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "user-agent",
    "vary",
    "www-authenticate",
    "x-request-id",
    "x-trace-id",
];
/// Body members whose URLs lose their queries in a wire record: webhook and file URLs often contain a key there.
const LINK_MEMBERS: [&str; 2] = ["url", "uri"];
/// The member of a part that holds its text.
const TEXT_MEMBER: &str = "text";
/// Headers whose first word is the scheme, which may be shown.
const SCHEMED: [&str; 2] = ["authorization", "proxy-authorization"];
/// Headers whose whole value is secret.
const SECRET_HEADERS: [&str; 8] = [
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "x-a2a-notification-token",
    "a2a-notification-token",
    sabir_proto::transfer::CLAIM_HEADER,
    // Valid for minutes, at any agent.
    "x-xpr-signature",
];
/// Service parameters that may be shown; all others are hidden.
const OPEN_PARAMETERS: [&str; 6] =
    ["a2a-version", "a2a-extensions", "traceparent", "tracestate", "x-trace-id", "x-request-id"];
/// Body members that hold secrets: those of OAuth and of push configurations.
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
/// Additional fields that are hidden in forms and queries. In JSON, `code` is the name of an error.
const SECRET_FIELDS: [&str; 2] = ["code", "assertion"];

/// The redactor of this process.
pub fn process_redactor() -> &'static Arc<Redactor> {
    static PROCESS: OnceLock<Arc<Redactor>> = OnceLock::new();
    PROCESS.get_or_init(Arc::default)
}

/// Knows the secrets of a process, and removes them from texts.
#[derive(Default)]
pub struct Redactor {
    /// The secret values.
    values: RwLock<SecretValues>,
    /// Names of headers, parameters and cookies that hold secrets, in lower case.
    names: RwLock<BTreeSet<String>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Removes this value from all later texts, in plain and encoded form. A value of less than [`SECRET_BYTES_MIN`]
    /// bytes is removed only after the scheme of a credential.
    pub fn learn(&self, secret: &str) {
        self.values.write().unwrap_or_else(PoisonError::into_inner).learn(secret);
    }

    /// The same for a short-lived credential: it is forgotten after many others have been registered.
    pub fn learn_temporary(&self, secret: &str) {
        self.values.write().unwrap_or_else(PoisonError::into_inner).learn_temporary(secret);
    }

    /// Hides the values of headers, query parameters and cookies of this name from now on.
    pub fn learn_name(&self, name: &str) {
        self.names.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_ascii_lowercase());
    }

    fn is_secret_name(&self, name: &str) -> bool {
        self.names.read().unwrap_or_else(PoisonError::into_inner).contains(&name.to_ascii_lowercase())
    }

    /// Removes known secrets from a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).hide(text)
    }

    /// Removes known secrets, and credentials after a scheme, from the message of a remote agent to a caller. Bare
    /// tokens stay: they may be meant for the caller, for example in a login URL.
    pub fn agent_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        apply_filter(self.text(text), credentials_by_form)
    }

    /// Removes secrets from a line of a log or a record: as in an agent's message, and also every token.
    pub fn log_line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        apply_filter(self.agent_text(text), tokens_by_form)
    }

    /// A text that comes in pieces, without the secrets that begin in one piece and end in another; `None` where there are none.
    /// Secrets within one piece are left to the other methods.
    pub fn pieces(&self, pieces: &[&str]) -> Option<Vec<String>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).hide_across(pieces)
    }

    /// The bodies or events of one exchange, without the secrets that an agent has split over several texts in them: over the
    /// parts of a message, or over the chunks of a stream.
    pub fn split_texts<'a>(&self, documents: &[&'a str]) -> Vec<Cow<'a, str>> {
        let unchanged = || documents.iter().map(|document| Cow::Borrowed(*document)).collect();
        let mut texts: Vec<&str> = Vec::new();
        for document in documents {
            replace_members(
                document,
                |name| name == TEXT_MEMBER,
                |text| {
                    texts.push(text);
                    String::new()
                },
            );
        }
        let Some(clean) = self.pieces(&texts) else { return unchanged() };
        let mut clean = clean.into_iter();
        let mut replaced = |document: &&str| {
            let next = |_: &str| clean.next().unwrap_or_default();
            Cow::Owned(replace_members(document, |name| name == TEXT_MEMBER, next))
        };
        documents.iter().map(&mut replaced).collect()
    }

    /// A header in a wire record: its value is hidden unless the header is known to be harmless.
    pub fn listed_header(&self, name: &str, value: &str) -> String {
        let lower = name.to_ascii_lowercase();
        match OPEN_HEADERS.contains(&lower.as_str()) && !self.is_secret_name(&lower) {
            true => self.log_line(value).into_owned(),
            false if SCHEMED.contains(&lower.as_str()) => self.header(name, value),
            false => REDACTED.to_owned(),
        }
    }

    /// The start of a body for a wire record, of at most `bytes_max` bytes. A secret that crosses the end is removed
    /// whole.
    pub fn record(&self, body: &str, bytes_max: usize) -> String {
        let end = (0..=bytes_max.min(body.len())).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0);
        let end = self.values.read().unwrap_or_else(PoisonError::into_inner).cut_before(body, end);
        let clean = self.body(&self.links(&body[..end]));
        self.log_line(&clean).into_owned()
    }

    /// Redacts the value of a header or of gRPC metadata.
    pub fn header(&self, name: &str, value: &str) -> String {
        let lower = name.to_ascii_lowercase();
        if SCHEMED.contains(&lower.as_str()) {
            return match value.split_once(' ') {
                Some((scheme, _)) => format!("{scheme} {REDACTED}"),
                None => REDACTED.to_owned(),
            };
        }
        if SECRET_HEADERS.contains(&lower.as_str()) || self.is_secret_name(&lower) {
            return REDACTED.to_owned();
        }
        self.text(value).into_owned()
    }

    /// Redacts the value of a service parameter: hidden unless it is known to be harmless.
    pub fn parameter(&self, name: &str, value: &str) -> String {
        let open = OPEN_PARAMETERS.contains(&name.to_ascii_lowercase().as_str());
        if open { self.text(value).into_owned() } else { REDACTED.to_owned() }
    }

    /// A URL without user information and without secrets in its query. Other texts are only filtered for known
    /// secrets.
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

    /// Redacts a body for a log. A body that is neither JSON nor a form loses only known secrets.
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

    /// Redacts a form: `a=b&c=d`.
    fn form(&self, form: &str) -> String {
        let hidden =
            |name: &str| SECRET_MEMBERS.contains(&name) || SECRET_FIELDS.contains(&name) || self.is_secret_name(name);
        let fields = form.split('&').map(|field| match field.split_once('=') {
            Some((name, _)) if hidden(name) => format!("{name}={REDACTED}"),
            _ => field.to_owned(),
        });
        fields.collect::<Vec<_>>().join("&")
    }

    /// Redacts JSON or similar text: hides every string member with one of the names.
    fn members(&self, text: &str) -> String {
        replace_members(
            text,
            |name| SECRET_MEMBERS.contains(&name) || self.is_secret_name(name),
            |_| REDACTED.to_owned(),
        )
    }

    /// Redacts JSON or similar text: hides the query values of its URLs.
    fn links(&self, text: &str) -> String {
        let hide = |value: &str| match value.split_once('?') {
            Some((path, query)) => {
                let fields = query.split('&').map(|field| match field.split_once('=') {
                    Some((name, _)) => format!("{name}={REDACTED}"),
                    None => REDACTED.to_owned(),
                });
                format!("{path}?{}", fields.collect::<Vec<_>>().join("&"))
            }
            None => value.to_owned(),
        };
        replace_members(text, |name| LINK_MEMBERS.contains(&name), hide)
    }
}

/// Replaces the string values of chosen members in JSON or similar text. It works on text, because logged JSON may be
/// truncated or broken.
fn replace_members<'a>(
    text: &'a str,
    chosen: impl Fn(&str) -> bool,
    mut other: impl FnMut(&'a str) -> String,
) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (name, after) = string(&rest[start + 1..]);
        let colon = after.trim_start().strip_prefix(':').map(str::trim_start);
        match colon.and_then(|value| value.strip_prefix('"')) {
            Some(value) if chosen(name) => {
                let kept = rest.len() - value.len();
                clean += &rest[..kept];
                let (value, after) = string(value);
                _ = write!(clean, "{}\"", other(value));
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

/// Applies one more filter to a text.
fn apply_filter<'a>(text: Cow<'a, str>, net: fn(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    match net(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => Cow::Owned(clean),
    }
}

/// The content of a JSON string after its opening quotation mark, and the rest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
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
    fn a_known_secret_is_found_in_json_in_json_and_in_both_spellings_of_percent() {
        let redactor = Redactor::default();
        let secret = "pa\"ss\\wörd/8";
        redactor.learn(secret);
        let once = serde_json::json!({ "said": secret }).to_string();
        let twice = serde_json::json!({ "error": once }).to_string();
        for text in [
            once,
            twice,
            r#"{"said":"pa\"ss\\w\u00f6rd/8"}"#.to_owned(),
            r#"{"said":"pa\"ss\\wörd\/8"}"#.to_owned(),
            "?key=pa%22ss%5Cw%C3%B6rd%2F8".to_owned(),
            "?key=pa%22ss%5cw%c3%b6rd%2f8".to_owned(),
        ] {
            let clean = redactor.text(&text).into_owned();
            assert!(clean.contains(REDACTED) && !clean.contains("rd"), "{text} -> {clean}");
        }
    }

    #[test]
    fn short_values_are_left_to_their_places() {
        let redactor = Redactor::default();
        redactor.learn("abc");
        assert_eq!(redactor.text("abc"), "abc");
        assert_eq!(redactor.text("it said Bearer abc, no Bearer abcd"), "it said Bearer [redacted], no Bearer abcd");
        assert_eq!(redactor.header("Authorization", "Bearer abc"), "Bearer [redacted]");
    }

    #[test]
    fn secrets_that_are_part_of_a_word_leave_the_word_alone() {
        let redactor = Redactor::default();
        redactor.learn("password");
        redactor.learn("20261119");
        assert_eq!(redactor.text("passwords of 202611190"), "passwords of 202611190");
        assert_eq!(redactor.text("it was password."), "it was [redacted].");
        // A long secret is removed within a word as well.
        redactor.learn("correcthorsebattery");
        assert_eq!(redactor.text("xcorrecthorsebatteryx"), "x[redacted]x");
    }

    #[test]
    fn of_a_file_the_lines_of_keys_are_known_and_the_rest_is_text() {
        let redactor = Redactor::default();
        redactor.learn("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n");
        assert_eq!(redactor.text("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(redactor.text("<MIIEvQIBADANBgkqhkiG9w0BAQEFAASC>"), "<[redacted]>");
    }

    #[test]
    fn credentials_that_pass_are_known_for_a_while() {
        let redactor = Redactor::default();
        let minted = |number: usize| format!("minted-credential-{number}");
        (0..70).for_each(|number| redactor.learn_temporary(&minted(number)));
        assert_eq!(redactor.text(&minted(69)), REDACTED);
        assert_eq!(redactor.text(&minted(0)), minted(0));
    }

    #[test]
    fn what_follows_a_scheme_is_no_word_of_an_agent() {
        let redactor = Redactor::default();
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";
        for (said, shown) in [
            ("upstream saw Bearer abcdefghij0123456789!", "upstream saw Bearer [redacted]!"),
            ("Authorization: Basic aHViOm9wZW4tc2VzYW1lLTc=", "Authorization: Basic [redacted]"),
            ("Bearer authentication-is-required here", "Bearer authentication-is-required here"),
            ("the Basic plan, a bearer of news", "the Basic plan, a bearer of news"),
        ] {
            assert_eq!(redactor.agent_text(said), shown);
        }
        let login = format!("open https://login.example/?request={token}");
        assert_eq!(redactor.agent_text(&login), login);
        assert_eq!(redactor.log_line(&login), "open https://login.example/?request=[redacted]");
    }

    #[test]
    fn a_record_shows_headers_that_are_known_to_be_harmless() {
        let redactor = Redactor::default();
        redactor.learn("a-secret-of-ours");
        for (name, value, shown) in [
            ("Content-Type", "application/json", "application/json"),
            ("X-Auth-Token", "anything", REDACTED),
            ("Authorization", "Bearer abc", "Bearer [redacted]"),
            ("WWW-Authenticate", "Bearer error=\"a-secret-of-ours\"", "Bearer error=\"[redacted]\""),
        ] {
            assert_eq!(redactor.listed_header(name, value), shown, "{name}");
        }
    }

    #[test]
    fn a_record_hides_the_queries_of_links_and_cuts_between_secrets() {
        let redactor = Redactor::default();
        redactor.learn("a-secret-of-ours");
        let body = r#"{"pushNotificationConfig":{"url":"https://h.example/x?key=1&flag","id":"a?b=c"}}"#;
        let shown =
            r#"{"pushNotificationConfig":{"url":"https://h.example/x?key=[redacted]&[redacted]","id":"a?b=c"}}"#;
        assert_eq!(redactor.record(body, 1000), shown);
        for end in 5..21 {
            let kept = redactor.record("said a-secret-of-ours!", end);
            assert_eq!(kept, "said ", "{end}");
        }
        assert_eq!(redactor.record("said a-secret-of-ours!", 21), "said [redacted]");
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
