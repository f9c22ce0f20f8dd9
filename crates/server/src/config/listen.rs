//! `server.listen`: the address and the port that the server listens on, and whether other machines can reach it.

use super::Config;
use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};

/// Parses `127.0.0.1:4000`, `[::1]:4000` or `localhost:4000`. The resolver of this machine looks up host names; an IPv4
/// address comes first, because clients try it first.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if !text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
        return Err(format!("{text:?} is not an address with a port; write \"127.0.0.1:4000\""));
    }
    let unknown = |reason: String| format!("cannot find the address of {text:?}: {reason}; write \"127.0.0.1:4000\"");
    let mut found: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| unknown("there is none".into()))
}

impl Config {
    /// Why other machines can reach this server: its address, or a setting that shows that a proxy forwards requests to
    /// it. `None` if only programs on this machine can.
    pub fn reachable_by(&self) -> Option<String> {
        let server = &self.server;
        if !server.listen.ip().is_loopback() {
            return Some(format!("listen = {:?}", server.listen.to_string()));
        }
        if let Some(url) = &server.public_url {
            return Some(format!("public_url = {url:?}"));
        }
        if server.is_tls_terminated() {
            return Some("tls = \"terminated\"".to_owned());
        }
        (!server.proxies.is_empty()).then(|| "proxies".to_owned())
    }
}

/// Reads the address from the configuration file, where a bare port is a common mistake.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    struct ListenVisitor;
    impl Visitor<'_> for ListenVisitor {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an address with a port, such as \"127.0.0.1:4000\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
            parse_listen(text).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, port: i64) -> Result<SocketAddr, E> {
            Err(E::custom(format!("a port alone is not enough; write \"127.0.0.1:{port}\"")))
        }
    }
    deserializer.deserialize_any(ListenVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_host_names_are_read() {
        assert_eq!(parse_listen("127.0.0.1:4000"), Ok(SocketAddr::from(([127, 0, 0, 1], 4000))));
        assert_eq!(parse_listen("[::1]:1").map(|a| a.to_string()), Ok("[::1]:1".into()));
        assert_eq!(parse_listen("localhost:4000"), Ok(SocketAddr::from(([127, 0, 0, 1], 4000))));
    }

    #[test]
    fn a_server_is_reachable_by_its_address_by_its_url_and_by_a_proxy() {
        let check = |server: &str| Config::read(&format!("[server]\n{server}\n")).unwrap().reachable_by();
        for local in ["", "listen = \"[::1]:1\"", "listen = \"127.8.0.1:1\"\nproxies = []"] {
            assert_eq!(check(local), None, "{local}");
        }
        for (server, why) in [
            ("listen = \"0.0.0.0:1\"", "listen = \"0.0.0.0:1\""),
            ("public_url = \"https://agents.example.com\"", "public_url = \"https://agents.example.com\""),
            ("proxies = [\"127.0.0.1\"]", "proxies"),
            ("tls = \"terminated\"", "tls = \"terminated\""),
        ] {
            assert_eq!(check(server).as_deref(), Some(why));
        }
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        for text in ["4000", ":4000", "localhost", "localhost:http", "localhost:70000", ""] {
            let refusal = parse_listen(text).unwrap_err();
            assert!(refusal.contains("127.0.0.1:4000"), "{refusal}");
        }
        let refusal = parse_listen("no-such-host.invalid:1").unwrap_err();
        assert!(refusal.starts_with("cannot find the address of \"no-such-host.invalid:1\""), "{refusal}");
    }
}
