//! Checks the URL of a webhook before any connection is made.
//!
//! A caller that registers a webhook decides where our server sends its next request, so the URL is read as strictly as
//! possible. Addresses are not judged here: the HTTP client judges the address that it dials.

use std::sync::Arc;
use url::Url;

/// The longest accepted URL, in bytes.
pub const URL_BYTES_MAX: usize = 2048;

/// Ports whose services take the lines of an HTTP request for commands, or for mail: those that browsers refuse (the
/// *port blocking* of the Fetch standard), and two that browsers miss.
const PORTS_REFUSED: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211,
];

/// Why a URL is not called. Nothing of it is repeated, because it may hold a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlFault {
    /// No URL at all, or one that is longer than [`URL_BYTES_MAX`].
    #[error("the webhook's URL cannot be read")]
    Malformed,
    /// Not `http` or `https`.
    #[error("a webhook is called by http or https")]
    Scheme,
    /// There is a name or a password before the host; attackers make it look like the host.
    #[error("credentials do not belong in a webhook's URL; register them as its authentication")]
    UserInfo,
    /// There is no host.
    #[error("the webhook's URL has no host")]
    Host,
    /// The port of a service that is no web server.
    #[error("port {0} is not one of a web server")]
    Port(u16),
}

/// Reads the URL of a webhook. The fragment is left out: it concerns browsers only.
pub fn parse_outbound_url(url: &str) -> Result<Url, UrlFault> {
    if url.len() > URL_BYTES_MAX || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(UrlFault::Malformed);
    }
    // Browsers repair these, and readers that do not would see another host.
    let rest = url.split_once("://").ok_or(UrlFault::Malformed)?.1;
    if rest.starts_with(['/', '\\']) || rest.split(['?', '#']).next().is_some_and(|path| path.contains('\\')) {
        return Err(UrlFault::Malformed);
    }
    let mut url = Url::parse(url).map_err(|_| UrlFault::Malformed)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlFault::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() || rest_has_userinfo(rest) {
        return Err(UrlFault::UserInfo);
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(UrlFault::Host);
    }
    match url.port_or_known_default() {
        Some(port) if !PORTS_REFUSED.contains(&port) => {}
        port => return Err(UrlFault::Port(port.unwrap_or_default())),
    }
    url.set_fragment(None);
    Ok(url)
}

/// The origin of a webhook's URL: scheme, host and port, in one spelling.
pub fn host_of(url: &str) -> Result<Arc<str>, UrlFault> {
    let url = parse_outbound_url(url)?;
    // A host name may end with the dot of the DNS root.
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    Ok(format!("{}://{host}:{}", url.scheme(), url.port_or_known_default().unwrap_or_default()).into())
}

/// Also finds an empty name and password, which the parser drops.
fn rest_has_userinfo(rest: &str) -> bool {
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_webhooks_are_called() {
        for (url, expected) in [
            ("https://hooks.example/a?b=c#d", "https://hooks.example/a?b=c"),
            ("http://hooks.example:8080/", "http://hooks.example:8080/"),
            ("HTTPS://Hooks.Example", "https://hooks.example/"),
            ("https://[2606:4700::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
            ("https://hooks.example/a@b", "https://hooks.example/a@b"),
        ] {
            assert_eq!(parse_outbound_url(url).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn what_is_not_a_web_address_is_refused_and_said_why() {
        for (url, fault) in [
            ("", UrlFault::Malformed),
            ("hooks.example", UrlFault::Malformed),
            ("/relative", UrlFault::Malformed),
            ("http:///hooks.example", UrlFault::Malformed),
            ("http://", UrlFault::Malformed),
            (r"http:\\hooks.example", UrlFault::Malformed),
            (r"http://hooks.example\@127.0.0.1/", UrlFault::Malformed),
            ("http://hooks.example/\r\nHost: other", UrlFault::Malformed),
            ("http://hooks.example/ x", UrlFault::Malformed),
            ("file:///etc/passwd", UrlFault::Malformed),
            ("ftp://hooks.example/", UrlFault::Scheme),
            ("gopher://hooks.example/_x", UrlFault::Scheme),
            ("unix://run/docker.sock", UrlFault::Scheme),
            ("javascript://hooks.example/%0aalert(1)", UrlFault::Scheme),
            ("http://user:secret@hooks.example/", UrlFault::UserInfo),
            ("http://hooks.example@127.0.0.1/", UrlFault::UserInfo),
            ("http://@hooks.example/", UrlFault::UserInfo),
            ("http://hooks.example:25/", UrlFault::Port(25)),
            ("http://hooks.example:0/", UrlFault::Port(0)),
            ("https://hooks.example:6379/", UrlFault::Port(6379)),
            ("https://hooks.example:99999/", UrlFault::Malformed),
        ] {
            let said = parse_outbound_url(url);
            assert_eq!(said, Err(fault), "{url}");
            assert!(!said.unwrap_err().to_string().contains("secret"));
        }
        assert_eq!(parse_outbound_url(&format!("https://a/{}", "x".repeat(URL_BYTES_MAX))), Err(UrlFault::Malformed));
    }

    #[test]
    fn a_host_has_one_name_however_it_is_spelled() {
        for url in ["127.0.0.1/a", "127.1/b?c", "2130706433", "0x7f.1/", "127.0.0.1./", "127.0.0.1:80"] {
            assert_eq!(host_of(&format!("http://{url}")).as_deref(), Ok("http://127.0.0.1:80"), "{url}");
        }
        for url in ["https://h/", "https://H:443", "HTTPS://h.", "https://%68/x"] {
            assert_eq!(host_of(url).as_deref(), Ok("https://h:443"), "{url}");
        }
        assert_ne!(host_of("http://h/"), host_of("https://h/"));
        assert_ne!(host_of("http://h/"), host_of("http://h:8080/"));
        assert_eq!(host_of("http://u@h/"), Err(UrlFault::UserInfo));
    }

    #[test]
    fn the_ports_are_in_order_and_once_each() {
        assert!(PORTS_REFUSED.is_sorted_by(|a, b| a < b));
    }
}
