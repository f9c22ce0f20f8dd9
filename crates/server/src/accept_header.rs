//! Content negotiation: what a client says in `Accept` about the media types that we write.
//!
//! Nothing is ever refused with 406: a client that names no type of ours gets the type that every client reads. What is
//! negotiated is the name of the type only; the bytes are the same.

use crate::body::{A2A_JSON, EVENT_STREAM, JSON};
use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use sabir_wire::v03::files;

/// Whether JSON is to be called `application/json`: the client says what it accepts, and `application/a2a+json` is not
/// among it, or comes after. Without the header, or under `*/*`, the type of A2A 1.0.1 stays.
pub(crate) fn prefers_plain_json(headers: &HeaderMap) -> bool {
    match sole_value(headers) {
        None => return false,
        Some(b"application/json") => return true,
        Some(_) => {}
    }
    let a2a = quality(headers, A2A_JSON);
    a2a == 0.0 || quality(headers, JSON) > a2a
}

/// Whether the client reads event streams and no JSON, so that an error has to be an event.
///
/// The SDK for JavaScript names event streams alone as well, but it reads JSON, and only there does it look for the
/// class of an error: in an event every error is the same to it.
pub(crate) fn takes_events_only(headers: &HeaderMap) -> bool {
    if matches!(sole_value(headers), None | Some(b"application/json" | b"*/*")) {
        return false;
    }
    if quality(headers, EVENT_STREAM) == 0.0 || quality(headers, JSON) > 0.0 {
        return false;
    }
    let user_agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    files::FileEncoding::of_client(user_agent) != files::FileEncoding::Bytes
}

/// The value of the header: `None` if it is absent, and empty if it is there more than once. Most clients send one of
/// two values, which need not be parsed; every request comes through here.
fn sole_value(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(ACCEPT).iter();
    let first = values.next()?.as_bytes();
    Some(if values.next().is_none() { first } else { b"" })
}

/// How much a client wants a media type, from 0 to 1, by the most specific range that covers it (RFC 9110 §12.5.1).
fn quality(headers: &HeaderMap, media_type: &str) -> f32 {
    let kind = media_type.split('/').next().unwrap_or_default();
    let mut best = (0, 0.0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let specific = match name.split_once('/') {
            _ if name.eq_ignore_ascii_case(media_type) => 3,
            Some((known, "*")) if known.eq_ignore_ascii_case(kind) => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let given = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="))?.parse().ok());
        let given: f32 = given.unwrap_or(1.0);
        if specific > best.0 || (specific == best.0 && given > best.1) {
            best = (specific, given);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        headers
    }

    #[test]
    fn plain_json_is_for_clients_that_name_it_and_not_ours() {
        for (accept, plain) in [
            ("application/json", true),
            ("text/event-stream", true),
            ("text/html, application/json;q=0.9", true),
            ("application/json, application/a2a+json;q=0.5", true),
            ("application/a2a+json;q=0, application/json", true),
            ("application/a2a+json, application/json", false),
            ("application/a2a+json", false),
            ("application/*", false),
            ("*/*", false),
            ("application/json, */*", false),
        ] {
            assert_eq!(prefers_plain_json(&headers(accept)), plain, "{accept}");
        }
        assert!(!prefers_plain_json(&HeaderMap::new()));
    }

    #[test]
    fn errors_are_events_for_clients_that_read_nothing_else() {
        for (accept, only) in [
            ("text/event-stream", true),
            ("Text/Event-Stream;q=0.8", true),
            ("text/*", true),
            ("text/event-stream, application/json", false),
            ("text/event-stream, */*;q=0.1", false),
            ("application/json", false),
            ("*/*", false),
            ("text/event-stream;q=0", false),
        ] {
            assert_eq!(takes_events_only(&headers(accept)), only, "{accept}");
        }
        for (user_agent, only) in
            [("node", false), ("Mozilla/5.0", false), ("Go-http-client/2.0", true), ("Java-http-client/17", true)]
        {
            let mut headers = headers("text/event-stream");
            headers.insert(USER_AGENT, user_agent.parse().unwrap());
            assert_eq!(takes_events_only(&headers), only, "{user_agent}");
        }
        assert!(!takes_events_only(&HeaderMap::new()));
    }
}
