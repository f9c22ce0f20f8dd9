//! Who may speak to a listener that asks for no credentials.
//!
//! Any web page a person opens can make their browser send requests to this machine. Three checks keep such pages out:
//! only JSON content types on POST (a page can send others without asking), only our own `Host` (a page can rebind its
//! own name to our address), and no foreign `Origin`.

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request};

/// The names under which this server may be called.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    hosts: Vec<String>,
    any_address: bool,
}

/// Why somebody was not let in: an HTTP status and a sentence.
pub(crate) type Refusal = (u16, &'static str);

impl Door {
    /// The addresses and names of this server; `authorities` are `host:port`, or bare hosts for default ports.
    /// With `any_address` every IP address is one of ours, because the server listens on all of them; a page that wants
    /// to rebind needs a name.
    pub(crate) fn new(authorities: impl IntoIterator<Item = String>, any_address: bool) -> Self {
        Self { hosts: authorities.into_iter().map(|a| a.to_ascii_lowercase()).collect(), any_address }
    }

    /// Checks a request.
    pub(crate) fn check<B: http_body::Body>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        // HTTP/2 has the authority in the URI, HTTP/1.1 in a header.
        let host = request.uri().authority().map(http::uri::Authority::as_str).or_else(|| text(headers, HOST));
        match host {
            // Rebinding changes the name, never the port; and tunnels change the port, never the name.
            Some(host) if self.hosts.iter().any(|ours| name(ours).eq_ignore_ascii_case(name(host))) => {}
            Some(host)
                if self.any_address && name(host).trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() => {}
            Some(_) => {
                return Err((421, "this server does not answer for that host; see public_url in its configuration"));
            }
            None => return Err((400, "the request has no Host header")),
        }
        if let Some(origin) = headers.get(ORIGIN) {
            // One that cannot be read is nobody we know.
            let host = origin.to_str().ok().and_then(|o| o.split_once("://")).map_or("", |(_, host)| host);
            if !self.is_ours(host) {
                return Err((403, "requests from other web origins are not allowed"));
            }
        }
        if request.method() == Method::POST && !is_json(headers, request.body().is_end_stream()) {
            return Err((415, "send the body as application/json or application/a2a+json"));
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host))
    }
}

/// An authority without its port.
fn name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => authority,
    }
}

fn text(headers: &HeaderMap, name: http::header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// JSON, gRPC, or nothing at all with nothing in it (a cancel has no body).
fn is_json(headers: &HeaderMap, empty: bool) -> bool {
    match headers.get(CONTENT_TYPE).map(|v| v.to_str().unwrap_or("")) {
        None => empty,
        Some(value) => {
            let essence = value.split(';').next().unwrap_or("").trim();
            ["application/json", "application/a2a+json"].iter().any(|t| essence.eq_ignore_ascii_case(t))
                || essence.to_ascii_lowercase().starts_with("application/grpc")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, headers: &[(&str, &str)]) -> u16 {
        check_with(method, headers, b"{}")
    }

    fn check_with(method: &str, headers: &[(&str, &str)], body: &'static [u8]) -> u16 {
        let door = Door::new(["127.0.0.1:4000".to_owned(), "localhost:4000".to_owned()], false);
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = http_body_util::Full::new(bytes::Bytes::from_static(body));
        door.check(&request.body(body).unwrap()).map_or_else(|(status, _)| status, |()| 200)
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let host = ("host", "127.0.0.1:4000");
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(check("POST", &[host, json]), 200);
        assert_eq!(check("POST", &[("host", "LOCALHOST:4000"), ("content-type", "application/a2a+json")]), 200);
        assert_eq!(check("POST", &[host, json, ("origin", "http://localhost:4000")]), 200);
        assert_eq!(check_with("POST", &[host], b""), 200);
        assert_eq!(check("POST", &[("host", "evil.example"), json]), 421);
        assert_eq!(check("POST", &[("host", "127.0.0.1"), json]), 200);
        assert_eq!(check("POST", &[("host", "127.0.0.1.evil.example"), json]), 421);
        assert_eq!(check("GET", &[host, ("origin", "http://127.0.0.1:4001")]), 403);
        assert_eq!(check("POST", &[json]), 400);
        assert_eq!(check("GET", &[host, ("origin", "https://evil.example")]), 403);
        assert_eq!(check("GET", &[host, ("origin", "null")]), 403);
        assert_eq!(check("POST", &[host, ("content-type", "text/plain")]), 415);
        assert_eq!(check("POST", &[host, ("content-type", "application/x-www-form-urlencoded")]), 415);
        assert_eq!(check("POST", &[host]), 415);
        assert_eq!(check("POST", &[("host", "192.168.1.7:4000"), json]), 421);
    }
}
