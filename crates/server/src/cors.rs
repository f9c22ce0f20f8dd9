//! CORS: which web pages may call, by the headers of the Fetch standard.
//!
//! Off unless origins are configured, and then for exactly these. A page of a named origin may use the credentials that
//! the browser has, such as a client certificate. With `*` all pages may call, and none may use such credentials.

use crate::body::Body;
use crate::config::network::WebOrigin;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderValue, ORIGIN, VARY,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};

/// What a page may send: the methods and headers of all bindings and credentials.
const METHODS: &str = "GET, HEAD, POST, DELETE";
const HEADERS: &str = "accept, authorization, content-type, a2a-version, a2a-extensions, x-a2a-extensions, \
                       idempotency-key, last-event-id, x-api-key, x-request-id, x-xpr-account, x-xpr-timestamp, \
                       x-xpr-signature, sabir-handoff-claim";
/// The headers of a response that a page may read.
const EXPOSED: &str =
    "a2a-version, a2a-extensions, x-a2a-extensions, etag, retry-after, www-authenticate, x-request-id";
/// Seconds for which a browser may cache a preflight.
const MAX_AGE: &str = "600";

/// The origins that may call.
#[derive(Debug, Default)]
pub(crate) struct Cors {
    origins: Vec<HeaderValue>,
    any: bool,
}

/// The CORS headers of a response.
#[derive(Debug)]
pub(crate) enum CorsHeaders {
    /// No headers, because CORS is off.
    None,
    /// Only `Vary`: another origin may get another response.
    Varies,
    /// This origin may read the response.
    Origin(HeaderValue),
    /// All origins may read the response.
    Any,
}

impl Cors {
    /// Makes the policy. An error says why the list is not legal.
    pub(crate) fn new(origins: &[WebOrigin]) -> Result<Self, String> {
        let any = origins.contains(&WebOrigin::Any);
        if any && origins.len() > 1 {
            return Err(
                "server.cors has \"*\" beside other origins; \"*\" is all of them, so let it stand alone".into()
            );
        }
        let exactly = origins.iter().filter_map(|origin| match origin {
            WebOrigin::Exact(origin) => HeaderValue::from_str(origin).ok(),
            WebOrigin::Any => None,
        });
        Ok(Self { origins: exactly.collect(), any })
    }

    /// Whether a page of this origin may call.
    pub(crate) fn allows(&self, origin: &HeaderValue) -> bool {
        self.any || self.origins.contains(origin)
    }

    /// The headers of the response to this request.
    pub(crate) fn headers_for(&self, headers: &HeaderMap) -> CorsHeaders {
        if self.any {
            return CorsHeaders::Any;
        }
        if self.origins.is_empty() {
            return CorsHeaders::None;
        }
        match headers.get(ORIGIN) {
            Some(origin) if self.allows(origin) => CorsHeaders::Origin(origin.clone()),
            _ => CorsHeaders::Varies,
        }
    }

    /// The response to a preflight. The origin check has accepted its origin.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        if request.method() != Method::OPTIONS || !request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        request.headers().get(ORIGIN).filter(|origin| self.allows(origin))?;
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        Some(response)
    }
}

impl CorsHeaders {
    /// Writes them into a response.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        let (origin, named) = match self {
            Self::None => return,
            Self::Varies => {
                headers.append(VARY, HeaderValue::from_static("origin"));
                return;
            }
            Self::Origin(origin) => (origin, true),
            Self::Any => (HeaderValue::from_static("*"), false),
        };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if named {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(origins: &[&str]) -> Result<Cors, String> {
        let origins: Vec<WebOrigin> = origins.iter().map(|o| toml::Value::from(*o).try_into().unwrap()).collect();
        Cors::new(&origins)
    }

    fn said(cors: &Cors, origin: Option<&'static str>) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
        let mut answer = HeaderMap::new();
        cors.headers_for(&headers).write(&mut answer);
        let mut said: Vec<String> = answer.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        said.retain(|line| !line.contains("expose"));
        said.sort();
        said
    }

    #[test]
    fn nobody_is_invited_unless_named() {
        let off = cors(&[]).unwrap();
        assert!(said(&off, Some("https://console.example")).is_empty() && said(&off, None).is_empty());
        let on = cors(&["https://Console.example:443"]).unwrap();
        let invited = [
            "access-control-allow-credentials: true",
            "access-control-allow-origin: https://console.example",
            "vary: origin",
        ];
        assert_eq!(said(&on, Some("https://console.example")), invited);
        for other in ["http://console.example", "https://console.example:8443", "https://console.example.evil", "null"]
        {
            assert_eq!(said(&on, Some(other)), ["vary: origin"], "{other}");
        }
        assert_eq!(said(&on, None), ["vary: origin"]);
    }

    #[test]
    fn everybody_may_come_but_not_with_what_the_browser_knows() {
        let any = cors(&["*"]).unwrap();
        assert_eq!(said(&any, Some("https://anybody.example")), ["access-control-allow-origin: *"]);
        assert!(cors(&["*", "https://console.example"]).unwrap_err().contains("alone"));
    }

    #[test]
    fn browsers_ask_first() {
        let on = cors(&["https://console.example"]).unwrap();
        let ask = |method: &str, origin: &str, asked: &str| {
            let request = Request::builder().method(method).header(ORIGIN, origin).header(asked, "POST");
            on.preflight(&request.body(()).unwrap()).map(|response| response.status().as_u16())
        };
        let asked = "access-control-request-method";
        assert_eq!(ask("OPTIONS", "https://console.example", asked), Some(204));
        assert_eq!(ask("OPTIONS", "https://evil.example", asked), None);
        assert_eq!(ask("OPTIONS", "https://console.example", "x-other"), None);
        assert_eq!(ask("GET", "https://console.example", asked), None);
    }
}
