//! Proxies in front of this server, and the client that they name.
//!
//! Any client can write `X-Forwarded-For`, so it is read only if the peer is a configured proxy. Each proxy appends the
//! address that called it. Read from the right, the first address that is no proxy of ours is the client; the client
//! wrote everything to the left of it. An unreadable entry ends the search, and the client is then the last known
//! address, so a forged header can name a proxy but never another client.
//!
//! Some hosting platforms chain several proxies, and name the client of the first in a header of their own. Where that
//! is configured, this header decides the address, and no list is read.
//!
//! A proxy that writes `X-Forwarded-For` passes a client's `Forwarded` on, and the other way round. If both exist and
//! disagree, neither is trusted.

use crate::config::network::IpNetwork;
use crate::peer::Peer;
use http::{HeaderMap, HeaderName};
use std::net::{IpAddr, SocketAddr};

/// Addresses that are read in one request. No deployment has more proxies.
const HOPS_MAX: usize = 32;

/// The trusted proxies.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    trusted: Vec<IpNetwork>,
    /// The header in which they name the client; they overwrite what a client writes there.
    client_header: Option<HeaderName>,
}

/// The client as a proxy names it: its address, and whether it used TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForwardedClient {
    address: IpAddr,
    tls: Option<bool>,
}

impl Proxies {
    pub(crate) const fn new(trusted: Vec<IpNetwork>) -> Self {
        Self { trusted, client_header: None }
    }

    /// Sets the header in which the proxies name the client.
    pub(crate) fn with_client_header(self, client_header: Option<HeaderName>) -> Self {
        Self { client_header, ..self }
    }

    /// The client of a request: the peer, or the address behind it if the peer is a trusted proxy.
    pub(crate) fn resolve_client(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if self.trusted.is_empty() || !self.is_trusted(&peer.address) {
            return peer;
        }
        let lists = (headers.contains_key("forwarded"), headers.contains_key("x-forwarded-for"));
        let proto = scheme(headers);
        let named = self.client_header.as_ref().and_then(|name| headers.get(name));
        if lists == (false, false) && proto == ForwardedProto::Unknown && named.is_none() {
            return peer;
        }
        let nearest = peer.address;
        if let Some(named) = named {
            let client = named.to_str().ok().and_then(|text| parse_node(text.trim()));
            let tls = if proto == ForwardedProto::Unknown { peer.tls } else { proto == ForwardedProto::Tls };
            return Peer { address: client.unwrap_or(nearest), tls, is_older_tls: false, certificate: None };
        }
        let standard = lists.0.then(|| self.search(nearest, forwarded(headers)));
        let common = lists.1.then(|| self.search(nearest, x_forwarded_for(headers)));
        let said = match (standard, common) {
            (Some(standard), Some(common)) if standard.address != common.address => {
                ForwardedClient { address: nearest, tls: None }
            }
            (Some(said), _) | (None, Some(said)) => said,
            (None, None) => ForwardedClient { address: nearest, tls: None },
        };
        let tls = match (proto, said.tls) {
            (ForwardedProto::Plain, _) | (_, Some(false)) => false,
            (ForwardedProto::Tls, _) | (_, Some(true)) => true,
            (ForwardedProto::Unknown, None) => peer.tls,
        };
        // The certificate of the connection is the proxy's, and does not identify the client.
        Peer { address: said.address, tls, is_older_tls: false, certificate: None }
    }

    /// Whether an address is that of a trusted proxy.
    pub(crate) fn is_trusted(&self, address: &IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// The first address that is no trusted proxy, from the nearest hop outwards.
    fn search(&self, nearest: IpAddr, hops: impl Iterator<Item = Option<ForwardedClient>>) -> ForwardedClient {
        let mut known = ForwardedClient { address: nearest, tls: None };
        for hop in hops.take(HOPS_MAX) {
            let Some(hop) = hop else { break };
            known = hop;
            if !self.is_trusted(&hop.address) {
                break;
            }
        }
        known
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForwardedProto {
    Unknown,
    Plain,
    Tls,
}

/// Reads `X-Forwarded-Proto`. If several proxies wrote it, each leg must have used TLS.
fn scheme(headers: &HeaderMap) -> ForwardedProto {
    let mut all = headers.get_all("x-forwarded-proto").iter().peekable();
    if all.peek().is_none() {
        return ForwardedProto::Unknown;
    }
    let is_tls = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|text| text.split(',').all(|leg| leg.trim().eq_ignore_ascii_case("https")))
    };
    if all.all(is_tls) { ForwardedProto::Tls } else { ForwardedProto::Plain }
}

/// The hops of `X-Forwarded-For`, nearest first; `None` for one that cannot be read.
fn x_forwarded_for(headers: &HeaderMap) -> impl Iterator<Item = Option<ForwardedClient>> {
    headers.get_all("x-forwarded-for").iter().rev().flat_map(|line| {
        // A line that is no text counts as one unknown hop.
        line.to_str()
            .unwrap_or("?")
            .rsplit(',')
            .map(|hop| parse_node(hop.trim()).map(|address| ForwardedClient { address, tls: None }))
    })
}

/// The hops of `Forwarded` (RFC 7239), nearest first; `None` for one that is unreadable or hidden.
fn forwarded(headers: &HeaderMap) -> impl Iterator<Item = Option<ForwardedClient>> {
    headers.get_all("forwarded").iter().rev().flat_map(|line| {
        // Parsed from the left, because of its quotes. A line with an error is one unknown hop, because the end of the
        // error is unclear.
        let hops = line.to_str().ok().and_then(elements).unwrap_or_else(|| vec![None]);
        hops.into_iter().rev()
    })
}

/// The elements of a line of `Forwarded`; `None` where it breaks the grammar.
fn elements(line: &str) -> Option<Vec<Option<ForwardedClient>>> {
    let mut hops = Vec::new();
    let mut rest = line;
    loop {
        // Lists may have empty elements (RFC 9110 §5.6.1).
        rest = rest.trim_start_matches([',', ' ', '\t']);
        if rest.is_empty() {
            return Some(hops);
        }
        let (mut came_from, mut proto) = (None, None);
        loop {
            let (name, after) = rest.split_once('=')?;
            let (value, after) = value(after)?;
            let slot = match name.trim().to_ascii_lowercase().as_str() {
                "for" => Some(&mut came_from),
                "proto" => Some(&mut proto),
                name if !name.is_empty() && name.bytes().all(is_token) => None,
                _ => return None,
            };
            // Each parameter once (§4): with two of them the right one is unknown.
            if slot.is_some_and(|slot| slot.replace(value).is_some()) {
                return None;
            }
            let after = after.trim_start();
            match after.as_bytes().first() {
                Some(b';') => rest = after[1..].trim_start(),
                Some(b',') | None => {
                    rest = after;
                    break;
                }
                Some(_) => return None,
            }
        }
        let tls = proto.map(|proto| proto.eq_ignore_ascii_case("https"));
        hops.push(came_from.and_then(|text| parse_node(&text)).map(|address| ForwardedClient { address, tls }));
    }
}

/// A value, quoted or not, and the text after it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.bytes().position(|b| !is_token(b)).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

/// The characters of a token. A colon is no token character, but many proxies write IPv4 with a port and without
/// quotes.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~' | b':')
}

/// An address with or without a port, IPv6 with or without brackets. Hidden names (`unknown`, `_secret`) are no
/// addresses.
fn parse_node(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse::<IpAddr>().ok().or_else(with_port).or_else(bracketed).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client and TLS of a request that came over plain HTTP from this address with these headers.
    fn check(from: &str, headers: &[(&'static str, &[u8])]) -> (String, bool) {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|n| toml::Value::from(n).try_into().unwrap());
        let proxies = Proxies::new(trusted.into());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        let certificate = Some([1, 2, 3].as_slice().into());
        let peer = Peer { address: from.parse().unwrap(), tls: false, is_older_tls: false, certificate };
        let corrected = proxies.resolve_client(peer.clone(), &map);
        assert_eq!(corrected.certificate.is_some(), corrected == peer, "whoever is spoken for has no certificate");
        (corrected.address.to_string(), corrected.tls)
    }

    /// Only the address of the client, behind one proxy.
    fn client(name: &'static str, lines: &[&str]) -> String {
        let headers: Vec<_> = lines.iter().map(|line| (name, line.as_bytes())).collect();
        check("10.0.0.1", &headers).0
    }

    const XFF: &str = "x-forwarded-for";
    const FORWARDED: &str = "forwarded";

    #[test]
    fn strangers_are_not_believed() {
        let lies: [(&str, &[u8]); 3] =
            [(XFF, b"198.51.100.1"), (FORWARDED, b"for=198.51.100.1;proto=https"), ("x-forwarded-proto", b"https")];
        assert_eq!(check("192.0.2.7", &lies), ("192.0.2.7".into(), false));
        let nobody = Proxies::default().resolve_client(
            Peer::plain("10.0.0.1:1".parse().unwrap()),
            &HeaderMap::from_iter([(http::HeaderName::from_static(XFF), http::HeaderValue::from_static("1.2.3.4"))]),
        );
        assert_eq!(nobody.address.to_string(), "10.0.0.1");
    }

    #[test]
    fn the_first_from_the_right_that_is_no_proxy_is_the_client() {
        for (lines, expected) in [
            (&["192.0.2.7"][..], "192.0.2.7"),
            (&["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
            (&["192.0.2.7, 10.0.0.3,10.0.0.2"], "192.0.2.7"),
            (&["198.51.100.1", "192.0.2.7", "10.0.0.2"], "192.0.2.7"),
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (&["192.0.2.7:51000"], "192.0.2.7"),
            (&["2001:db8::7"], "2001:db8::7"),
            (&["[2001:db8::7]"], "2001:db8::7"),
            (&["[2001:db8::7]:51000"], "2001:db8::7"),
            (&["::ffff:192.0.2.7"], "192.0.2.7"),
            (&["fd00::9, 192.0.2.7, [fd00::8]:1"], "192.0.2.7"),
        ] {
            assert_eq!(client(XFF, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_ends_the_search_where_it_was() {
        for (lines, expected) in [
            (&["garbage"][..], "10.0.0.1"),
            (&[""], "10.0.0.1"),
            (&["192.0.2.7, unknown"], "10.0.0.1"),
            (&["192.0.2.7, garbage, 10.0.0.2"], "10.0.0.2"),
            (&["192.0.2.7,"], "10.0.0.1"),
            (&["192.0.2.7:99999"], "10.0.0.1"),
            (&["192.0.2.7 198.51.100.1"], "10.0.0.1"),
            (&["fe80::1%eth0"], "10.0.0.1"),
            (&["1.2.3.4.5"], "10.0.0.1"),
        ] {
            assert_eq!(client(XFF, lines), expected, "{lines:?}");
        }
        assert_eq!(check("10.0.0.1", &[(XFF, b"192.0.2.7"), (XFF, b"\xff\xfe")]).0, "10.0.0.1");
        let many = format!("192.0.2.7{}", ", 10.0.0.2".repeat(10_000));
        assert_eq!(client(XFF, &[&many]), "10.0.0.2", "somebody who writes this many is not followed to the end");
    }

    #[test]
    fn the_standard_header_is_read_with_its_quotes() {
        for (lines, expected) in [
            (&["for=192.0.2.7"][..], "192.0.2.7"),
            (&["For=\"[2001:db8::7]:4711\";proto=https"], "2001:db8::7"),
            (&["for=192.0.2.7;by=203.0.113.43, for=\"10.0.0.2\""], "192.0.2.7"),
            (&["by=\"a,b;c\\\"d\" ; FOR=192.0.2.7"], "192.0.2.7"),
            (&["for=198.51.100.1", "for=192.0.2.7"], "192.0.2.7"),
            (&[",, for=192.0.2.7 ,"], "192.0.2.7"),
            (&["for=192.0.2.7:80"], "192.0.2.7"),
            (&["for=unknown"], "10.0.0.1"),
            (&["for=_hidden, for=10.0.0.2"], "10.0.0.2"),
            (&["proto=https"], "10.0.0.1"),
            (&["for=198.51.100.1;for=192.0.2.7"], "10.0.0.1"),
            (&["for=\"198.51.100.1, for=192.0.2.7"], "10.0.0.1"),
            (&["x=\"unclosed", "for=192.0.2.7"], "192.0.2.7"),
            (&["for"], "10.0.0.1"),
            (&["=;=,=\"\""], "10.0.0.1"),
            (&["for=\"\\"], "10.0.0.1"),
        ] {
            assert_eq!(client(FORWARDED, lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn headers_that_disagree_are_not_believed() {
        let check = |standard: &[u8], common: &[u8]| check("10.0.0.1", &[(FORWARDED, standard), (XFF, common)]).0;
        assert_eq!(check(b"for=192.0.2.7", b"192.0.2.7"), "192.0.2.7");
        assert_eq!(check(b"for=198.51.100.1", b"192.0.2.7"), "10.0.0.1");
        assert_eq!(check(b"garbage", b"192.0.2.7"), "10.0.0.1");
    }

    #[test]
    fn a_platform_that_names_the_client_in_a_header_of_its_own_is_believed_about_it() {
        let proxies =
            Proxies::new(IpNetwork::internal()).with_client_header(Some(HeaderName::from_static("fly-client-ip")));
        let check = |from: &str, headers: &[(&'static str, &'static str)]| {
            let headers =
                headers.iter().map(|(n, v)| (HeaderName::from_static(n), http::HeaderValue::from_static(v))).collect();
            let peer = proxies.resolve_client(Peer::plain(format!("{from}:1").parse().unwrap()), &headers);
            (peer.address.to_string(), peer.tls)
        };
        let said =
            [("fly-client-ip", "192.0.2.7"), (XFF, "203.0.113.9, 66.241.124.10"), ("x-forwarded-proto", "https")];
        assert_eq!(check("172.16.3.4", &said), ("192.0.2.7".into(), true));
        assert_eq!(check("198.51.100.1", &said), ("198.51.100.1".into(), false), "not from inside the platform");
        assert_eq!(check("172.16.3.4", &[("fly-client-ip", "rubbish")]), ("172.16.3.4".into(), false));
        assert_eq!(check("172.16.3.4", &[("x-forwarded-proto", "http"), said[0]]), ("192.0.2.7".into(), false));
        assert_eq!(check("172.16.3.4", &[]), ("172.16.3.4".into(), false));
    }

    #[test]
    fn a_proxy_says_whether_it_was_called_over_tls() {
        let tls = |headers: &[(&'static str, &[u8])]| check("10.0.0.1", headers).1;
        assert!(tls(&[("x-forwarded-proto", b"https")]));
        assert!(tls(&[("x-forwarded-proto", b"HTTPS, https")]));
        assert!(tls(&[(FORWARDED, b"for=192.0.2.7;proto=https, for=10.0.0.2;proto=http")]), "the client's leg counts");
        for plain in [&b"http"[..], b"", b"https, http", b"wss", b"\xff"] {
            assert!(!tls(&[("x-forwarded-proto", plain)]), "{plain:?}");
        }
        assert!(!tls(&[(FORWARDED, b"for=192.0.2.7;proto=http, for=10.0.0.2;proto=https")]));
        assert!(!tls(&[("x-forwarded-proto", b"https"), ("x-forwarded-proto", b"http")]));
        assert!(!tls(&[(FORWARDED, b"for=192.0.2.7;proto=https"), ("x-forwarded-proto", b"http")]));
        assert!(!tls(&[(XFF, b"192.0.2.7")]));
    }

    #[test]
    fn no_line_breaks_the_reader() {
        let pieces = ["for=", "\"", "\\", ",", ";", "=", "192.0.2.7", "[::1]", " ", "é", "proto=https", "_x"];
        for n in 0..20_000_u32 {
            let line: String = (0..6).map(|k| pieces[(n / 7_u32.pow(k)) as usize % pieces.len()]).collect();
            let _ = elements(&line);
        }
    }
}
