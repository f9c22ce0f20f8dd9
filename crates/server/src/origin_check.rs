//! The checks of `Host`, `Origin` and content type that keep web pages away from a listener without credentials.
//!
//! Any web page that a person opens can make the browser send requests to this machine. Three checks keep such pages
//! out: only JSON content types on POST (a page can send others without a preflight), only our own `Host` (a page can
//! rebind its own name to our address), and no foreign `Origin` except the configured ones.

use crate::body::Body;
use crate::cors::{Cors, CorsHeaders};
use crate::tls::ServerCertificate;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, Response, Uri};
use std::sync::Arc;

/// The names of this server, and the web origins that may call it.
#[derive(Debug)]
pub(crate) struct OriginCheck {
    hosts: Vec<String>,
    any_address: bool,
    cors: Cors,
    tls: Option<Arc<ServerCertificate>>,
    port: u16,
}

/// Why a request was refused: an HTTP status and a sentence.
pub(crate) type OriginRefusal = (u16, &'static str);

impl OriginCheck {
    /// The addresses and names of this server; `authorities` are `host:port`, or bare hosts for default ports. With
    /// `any_address` every IP address is accepted, because the server listens on all of them; a page that rebinds needs
    /// a name.
    pub(crate) fn new(authorities: impl IntoIterator<Item = String>, any_address: bool) -> Self {
        let hosts = authorities.into_iter().map(|a| a.to_ascii_lowercase()).collect();
        Self { hosts, any_address, cors: Cors::default(), tls: None, port: 0 }
    }

    /// Allows pages of these origins.
    pub(crate) fn with_cors(self, invited: Cors) -> Self {
        Self { cors: invited, ..self }
    }

    /// Also accepts the names of the server's certificate: a page that rebinds its own name has no certificate of ours.
    pub(crate) fn with_certificate_names(self, tls: Option<Arc<ServerCertificate>>, port: u16) -> Self {
        Self { tls, port, ..self }
    }

    /// The CORS headers of the response to a request.
    pub(crate) fn cors_headers(&self, headers: &HeaderMap) -> CorsHeaders {
        self.cors.headers_for(headers)
    }

    /// The response to a preflight of an allowed page. Call it after [`Self::check`].
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        self.cors.preflight(request)
    }

    /// Checks host, origin and content type of a request.
    pub(crate) fn check<B: http_body::Body>(&self, request: &Request<B>) -> Result<(), OriginRefusal> {
        let headers = request.headers();
        self.check_host(request.uri(), headers)?;
        if request.method() == Method::POST && !is_json(headers, request.body().is_end_stream()) {
            return Err((415, "send the body as application/json or application/a2a+json"));
        }
        Ok(())
    }

    /// Checks only the host and the origin of a request, whatever its method and body.
    pub(crate) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), OriginRefusal> {
        // A proxy in front may have checked the other one (RFC 9112 §3.2).
        if headers.get_all(HOST).iter().nth(1).is_some() {
            return Err((400, "the request has more than one Host header"));
        }
        // HTTP/2 has the authority in the URI, HTTP/1.1 in a header.
        let host = uri.authority().map(http::uri::Authority::as_str).or_else(|| text(headers, HOST));
        match host {
            // Rebinding changes the name, never the port; tunnels change the port, never the name.
            Some(host) if self.hosts.iter().any(|ours| without_port(ours).eq_ignore_ascii_case(without_port(host))) => {
            }
            Some(host)
                if self.any_address
                    && without_port(host).trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok() => {}
            Some(host) if self.is_certified(without_port(host)) => {}
            Some(_) => {
                return Err((421, "this server does not answer for that host; see public_url in its configuration"));
            }
            None => return Err((400, "the request has no Host header")),
        }
        if let Some(origin) = headers.get(ORIGIN) {
            // An origin that cannot be read is unknown.
            let (scheme, host) = origin.to_str().ok().and_then(|o| o.split_once("://")).unwrap_or_default();
            if !self.is_own_authority(host) && !self.cors.allows(origin) && !self.is_certified_origin(scheme, host) {
                return Err((403, "requests from other web origins are not allowed"));
            }
        }
        Ok(())
    }

    fn is_certified(&self, host: &str) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_for(host))
    }

    /// Whether this is the origin of a page that was loaded from this listener, by a name of its certificate.
    fn is_certified_origin(&self, scheme: &str, host: &str) -> bool {
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(443);
        scheme == "https" && port == self.port && self.is_certified(without_port(host))
    }

    /// Whether this is one of our own names, with the port.
    pub(crate) fn is_own_authority(&self, host: &str) -> bool {
        self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host))
    }
}

/// An authority without its port.
fn without_port(authority: &str) -> &str {
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

/// JSON, gRPC, or no content type with an empty body (a cancel has no body).
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
        let door = OriginCheck::new(["127.0.0.1:4000".to_owned(), "localhost:4000".to_owned()], false);
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
        assert_eq!(check("POST", &[host, host, json]), 400);
        assert_eq!(check("POST", &[host, ("host", "evil.example"), json]), 400);
        assert_eq!(check("GET", &[host, ("origin", "https://evil.example")]), 403);
        assert_eq!(check("GET", &[host, ("origin", "null")]), 403);
        assert_eq!(check("POST", &[host, ("content-type", "text/plain")]), 415);
        assert_eq!(check("POST", &[host, ("content-type", "application/x-www-form-urlencoded")]), 415);
        assert_eq!(check("POST", &[host]), 415);
        assert_eq!(check("POST", &[("host", "192.168.1.7:4000"), json]), 421);
    }
}
