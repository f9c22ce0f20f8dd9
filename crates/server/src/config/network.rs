//! IP networks and web origins in `[server]`.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address, or all addresses of a network: `192.0.2.7`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork(IpNet);

impl IpNetwork {
    /// The loopback addresses of this machine.
    pub(crate) fn loopback() -> Vec<Self> {
        let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        let v6 = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);
        vec![Self(v4.into()), Self(v6.into())]
    }

    /// The networks without public addresses: private, shared and link-local ones, and this machine.
    pub(crate) fn internal() -> Vec<Self> {
        let v4 = |a, b, bits| Self(Ipv4Net::new_assert(Ipv4Addr::new(a, b, 0, 0), bits).into());
        let v6 = |first, bits| Self(Ipv6Net::new_assert(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0), bits).into());
        let mut networks = Self::loopback();
        networks.extend([v4(10, 0, 8), v4(172, 16, 12), v4(192, 168, 16), v4(100, 64, 10), v4(169, 254, 16)]);
        networks.extend([v6(0xfc00, 7), v6(0xfe80, 10)]);
        networks
    }

    /// The network in the type of the `ipnet` crate.
    pub const fn net(&self) -> IpNet {
        self.0
    }

    /// Whether the network contains an address.
    pub fn contains(&self, address: &IpAddr) -> bool {
        self.0.contains(address)
    }
}

impl JsonSchema for IpNetwork {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "An address or a network: 192.0.2.7, 10.0.0.0/8, fd00::/8."})
    }
}

impl<'de> Deserialize<'de> for IpNetwork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl FromStr for IpNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let wrong = |_| format!("{text:?} is neither an address nor a network, such as \"10.0.0.0/8\"");
        address.or_else(|_| text.parse()).map(Self).map_err(wrong)
    }
}

/// A web origin whose pages may call, in the form of browsers: `https://console.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebOrigin {
    /// Only pages of this origin.
    Exact(String),
    /// `*`: pages of all origins.
    Any,
}

impl WebOrigin {
    fn read(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let wrong =
            || format!("{text:?} is not an origin; write scheme, host and port, such as \"https://console.example\"");
        let (scheme, authority) = text.split_once("://").ok_or_else(wrong)?;
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err(wrong()),
        };
        let exact = uri.authority().is_some_and(|a| a.as_str() == authority && !a.host().is_empty());
        if !exact || authority.contains(['@', '*']) || authority.ends_with(':') {
            return Err(wrong());
        }
        // A browser leaves the default port out, and so does this.
        let host = authority.strip_suffix(&format!(":{usual}")).unwrap_or(authority);
        Ok(Self::Exact(format!("{scheme}://{}", host.to_ascii_lowercase())))
    }
}

impl JsonSchema for WebOrigin {
    fn schema_name() -> Cow<'static, str> {
        "Origin".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "A web origin such as https://console.example, or * for any."})
    }
}

impl<'de> Deserialize<'de> for WebOrigin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_do() {
        let exactly = |text: &str| Ok(WebOrigin::Exact(text.to_owned()));
        assert_eq!(WebOrigin::read("https://Console.example:443"), exactly("https://console.example"));
        assert_eq!(WebOrigin::read("http://localhost:5173"), exactly("http://localhost:5173"));
        assert_eq!(WebOrigin::read("http://[::1]:5173"), exactly("http://[::1]:5173"));
        assert_eq!(WebOrigin::read("*"), Ok(WebOrigin::Any));
        for wrong in [
            "console.example",
            "https://",
            "https://console.example/",
            "https://console.example/app",
            "https://user@console.example",
            "https://*.example",
            "https://console.example:",
            "ftp://console.example",
            "null",
            "",
            "https://a b",
        ] {
            assert!(WebOrigin::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_are_addresses_or_more() {
        let read = |text: &str| toml::Value::from(text).try_into::<IpNetwork>();
        let holds = |network: &str, address: &str| read(network).unwrap().contains(&address.parse().unwrap());
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("10.0.0.0/8", "10.1.2.3") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe80::1") && !holds("fd00::/8", "10.0.0.1"));
        assert!(holds("::ffff:192.0.2.7", "192.0.2.7"));
        for wrong in ["10.0.0.0/33", "proxy.example", "", "10.0.0.0/", "1.2.3"] {
            assert!(read(wrong).unwrap_err().to_string().contains("10.0.0.0/8"), "{wrong}");
        }
    }
}
