//! The address policy: which addresses the client may connect to.
//!
//! The policy is checked where a connection is made: this module resolves a name and checks its addresses, and the
//! client connects to the addresses that passed. A check before a second look-up would be worthless, because a name may
//! resolve differently each time.

use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use url::{Host, Url};

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// The public Internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network: RFC 1918, unique local, shared address space.
    Private,
    /// The local link.
    LinkLocal,
    /// The metadata services of clouds, which give credentials to any caller.
    Metadata,
    /// Addresses that cannot be called: unspecified, multicast, reserved, documentation.
    Unroutable,
}

impl AddressClass {
    /// Returns the class of an address. An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4) has its own class:
    /// `::ffff:127.0.0.1` is this machine.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => embedded(v6).map_or_else(|| Self::of_v6(v6), Self::of_v4),
        }
    }

    fn of_v4(v4: Ipv4Addr) -> Self {
        match v4.octets() {
            // Instances of AWS, Azure, Google and others; containers and pods of AWS; Tencent; Oracle's older images;
            // Alibaba; and the wire server of Azure, whose address looks public.
            [169, 254, 169, 254]
            | [169, 254, 170, 2 | 23]
            | [169, 254, 0, 23]
            | [192, 0, 0, 192]
            | [100, 100, 100, 200]
            | [168, 63, 129, 16] => Self::Metadata,
            [127, ..] => Self::Loopback,
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Self::Private,
            [169, 254, ..] => Self::LinkLocal,
            [0 | 224..=255, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18..=19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _] => Self::Unroutable,
            _ => Self::Public,
        }
    }

    fn of_v6(v6: Ipv6Addr) -> Self {
        match v6.segments() {
            // AWS: instances and pods; Google; OpenStack.
            [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254 | 0x23]
            | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
            | [0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe] => Self::Metadata,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // 64:ff9b:1::/48 is NAT64 for local use; its operator decides where in it the IPv4 address stands.
            [0xfc00..=0xfdff, ..] | [0x64, 0xff9b, 1, ..] => Self::Private,
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            // Documentation, benchmarks, discards, multicast, and Teredo, which is a tunnel to an IPv4 address.
            [0x2001, 0 | 0xdb8, ..]
            | [0x2001, 2, 0, ..]
            | [0x3fff, 0..=0xfff, ..]
            | [0x5f00, ..]
            | [0xfec0..=0xfeff, ..]
            | [0xff00..=0xffff, ..]
            | [0x100, 0, 0, 0, ..]
            | [0, ..] => Self::Unroutable,
            _ => Self::Public,
        }
    }
}

/// The name of this machine, which always resolves to it.
const LOCALHOST: &str = "localhost";
/// Names of services that give out credentials.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata", "instance-data", "instance-data.ec2.internal", "metadata.azure.internal"];

/// The IPv4 address that an IPv6 address embeds.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = v6.segments();
    let join = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join(high, low)),
        [0x2002, high, low, ..] => Some(join(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(join(high, low)),
        _ => None,
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Unroutable => "not routable",
        })
    }
}

/// The address policy does not allow an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is at {address}, a {class} address, which is not allowed here")]
pub struct EgressRefusal {
    /// The host name or address of the request.
    pub host: String,
    /// The address that the host resolves to.
    pub address: IpAddr,
    /// The class of the address.
    pub class: AddressClass,
}

/// Why a name has no usable address.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The policy does not allow its addresses.
    #[error(transparent)]
    Refused(#[from] EgressRefusal),
    /// The name has no address.
    #[error("{host} does not resolve")]
    Unknown {
        /// The host name.
        host: String,
        /// The error of the resolver.
        #[source]
        source: Option<std::io::Error>,
    },
}

/// The future of the addresses of a name.
pub type LookupFuture = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// A resolver that replaces the one of the system.
pub trait Lookup: Send + Sync + 'static {
    /// Returns the addresses of a name.
    fn look_up(&self, name: &str) -> LookupFuture;
}

/// The resolver that a policy uses.
#[derive(Clone, Default)]
enum NameResolver {
    #[default]
    System,
    Custom(Arc<dyn Lookup>),
}

impl NameResolver {
    async fn look_up(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()),
            Self::Custom(lookup) => lookup.look_up(name).await,
        }
    }
}

impl fmt::Debug for NameResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "Machine",
            Self::Custom(_) => "Given",
        })
    }
}

/// A policy of addresses that may be called.
#[derive(Debug, Clone)]
pub struct Egress {
    classes: Vec<AddressClass>,
    allowed: Vec<IpNet>,
    allowed_endpoints: Vec<AllowedEndpoint>,
    names: NameResolver,
}

/// A URL origin that may be called although its address class may not: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AllowedEndpoint {
    scheme: String,
    host: Host,
    port: u16,
}

impl AllowedEndpoint {
    fn of(url: &Url) -> Option<Self> {
        let host = url.host()?.to_owned();
        Some(Self { scheme: url.scheme().to_owned(), host, port: url.port_or_known_default()? })
    }

    fn is_address(&self, address: IpAddr) -> bool {
        match (&self.host, address) {
            (Host::Ipv4(own), IpAddr::V4(address)) => *own == address,
            (Host::Ipv6(own), IpAddr::V6(address)) => *own == address,
            _ => false,
        }
    }

    /// Whether this is the endpoint of a name at a port. Port 0 means that the caller does not know the port.
    fn is_named(&self, name: &str, port: u16) -> bool {
        matches!(&self.host, Host::Domain(own) if own.eq_ignore_ascii_case(name)) && (port == 0 || port == self.port)
    }
}

impl Egress {
    /// Allows public addresses only. Use it wherever another party chooses the URL.
    pub fn public() -> Self {
        Self {
            classes: vec![AddressClass::Public],
            allowed: Vec::new(),
            allowed_endpoints: Vec::new(),
            names: NameResolver::System,
        }
    }

    /// Allows every address except cloud metadata services. For a person at a terminal, who chooses the URLs.
    pub fn anywhere() -> Self {
        let classes = vec![
            AddressClass::Public,
            AddressClass::Loopback,
            AddressClass::Private,
            AddressClass::LinkLocal,
            AddressClass::Unroutable,
        ];
        Self { classes, allowed: Vec::new(), allowed_endpoints: Vec::new(), names: NameResolver::System }
    }

    /// Also allows this machine.
    #[must_use]
    pub fn and_loopback(mut self) -> Self {
        self.classes.push(AddressClass::Loopback);
        self
    }

    /// Also allows a network, whatever its address class.
    #[must_use]
    pub fn and_network(mut self, network: IpNet) -> Self {
        self.allowed.push(network);
        self
    }

    /// Also allows the endpoint of this URL: its scheme, address and port, and no other port. The host must be an
    /// address or `localhost`; any other name is ignored, because its owner decides where it resolves. Addresses of
    /// cloud metadata services are ignored too.
    #[must_use]
    pub fn and_endpoint(mut self, url: &Url) -> Self {
        let is_fixed = match url.host() {
            Some(Host::Domain(name)) => name == LOCALHOST,
            Some(Host::Ipv4(address)) => AddressClass::of(address.into()) != AddressClass::Metadata,
            Some(Host::Ipv6(address)) => AddressClass::of(address.into()) != AddressClass::Metadata,
            None => false,
        };
        self.allowed_endpoints.extend(AllowedEndpoint::of(url).filter(|_| is_fixed));
        self
    }

    /// Uses another resolver; its results are checked like those of the system.
    #[must_use]
    pub fn with_resolver(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.names = NameResolver::Custom(lookup);
        self
    }

    /// Whether connections may go through a proxy of the environment. A proxy resolves names itself, so a policy that
    /// checks addresses cannot use one.
    pub(crate) fn trusts_proxies(&self) -> bool {
        self.classes.contains(&AddressClass::Private)
    }

    /// Checks the address in a URL; the addresses of a name are checked when it is resolved.
    pub(crate) fn check_url(&self, host: &str, url: &Url) -> Result<(), EgressRefusal> {
        let is_place = || AllowedEndpoint::of(url).is_some_and(|place| self.allowed_endpoints.contains(&place));
        match url.host() {
            Some(Host::Ipv4(address)) => {
                self.check(host, IpAddr::V4(address)).or_else(|r| is_place().then_some(()).ok_or(r))
            }
            Some(Host::Ipv6(address)) => {
                self.check(host, IpAddr::V6(address)).or_else(|r| is_place().then_some(()).ok_or(r))
            }
            // The port is unknown where TLS resolves the name, so this refuses other ports of an allowed endpoint
            // early.
            Some(Host::Domain(name))
                if self.allowed_endpoints.iter().any(|place| place.is_named(name, 0)) && !is_place() =>
            {
                self.check(host, IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
            // Behind a proxy, the proxy resolves the name.
            Some(Host::Domain(name)) => self.check_name(name),
            None => Ok(()),
        }
    }

    /// Refuses the names of cloud metadata services. Other names are checked when they are resolved.
    fn check_name(&self, name: &str) -> Result<(), EgressRefusal> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let handed_out = METADATA_NAMES.contains(&&*name) && !self.classes.contains(&AddressClass::Metadata);
        if handed_out {
            let address = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));
            return Err(EgressRefusal { host: name, address, class: AddressClass::Metadata });
        }
        Ok(())
    }

    /// Checks one address against the policy.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), EgressRefusal> {
        let class = AddressClass::of(address);
        let plain = address.to_canonical();
        if self.classes.contains(&class) || self.allowed.iter().any(|net| net.contains(&plain)) {
            return Ok(());
        }
        Err(EgressRefusal { host: host.into(), address, class })
    }

    /// Resolves a host and returns the addresses that may be called.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            let is_place = self.allowed_endpoints.iter().any(|place| place.is_address(address) && place.port == port);
            if !is_place {
                self.check(host, address)?;
            }
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let unknown = |source| ResolveError::Unknown { host: host.into(), source: Some(source) };
        let found = self.names.look_up(bare).await.map_err(unknown)?;
        let mut kept = Vec::new();
        let mut refused = None;
        let is_place = self.allowed_endpoints.iter().any(|place| place.is_named(bare, port));
        for address in found {
            match self.check(host, address) {
                Err(refusal) if is_place && refusal.class == AddressClass::Loopback => {
                    kept.push(SocketAddr::new(address, port));
                }
                Ok(()) => kept.push(SocketAddr::new(address, port)),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match (kept.is_empty(), refused) {
            (false, _) => Ok(kept),
            (true, Some(refusal)) => Err(refusal.into()),
            (true, None) => Err(ResolveError::Unknown { host: host.into(), source: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> AddressClass {
        AddressClass::of(text.parse().unwrap())
    }

    #[test]
    fn every_way_to_write_an_inner_address_is_seen_through() {
        for text in
            ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1"]
        {
            assert_eq!(class(text), AddressClass::Loopback, "{text}");
        }
        for text in [
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd12::1",
            "::ffff:10.1.2.3",
            "64:ff9b:1:a9fe:a9:fe00:808:808",
        ] {
            assert_eq!(class(text), AddressClass::Private, "{text}");
        }
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.0.23",
            "168.63.129.16",
            "::ffff:a9fe:a9fe",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
            "100.100.100.200",
        ] {
            assert_eq!(class(text), AddressClass::Metadata, "{text}");
        }
        for text in ["2001:0:1::1", "2001:2::1", "3fff::1", "5f00::1", "192.88.99.1"] {
            assert_eq!(class(text), AddressClass::Unroutable, "{text}");
        }
        for text in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "2001:db8::1", "240.0.0.1"] {
            assert_eq!(class(text), AddressClass::Unroutable, "{text}");
        }
        assert_eq!(class("169.254.1.1"), AddressClass::LinkLocal);
        assert_eq!(class("fe80::1"), AddressClass::LinkLocal);
        for text in ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert_eq!(class(text), AddressClass::Public, "{text}");
        }
    }

    #[test]
    fn what_is_allowed_by_name_of_network_passes_and_nothing_else() {
        let policy = Egress::public().and_network("10.1.0.0/16".parse().unwrap());
        assert!(policy.check("h", "10.1.2.3".parse().unwrap()).is_ok());
        assert!(policy.check("h", "::ffff:10.1.2.3".parse().unwrap()).is_ok());
        assert!(policy.check("h", "10.2.2.3".parse().unwrap()).is_err());
        assert!(policy.check("h", "127.0.0.1".parse().unwrap()).is_err());
        assert!(Egress::anywhere().check("h", "169.254.169.254".parse().unwrap()).is_err());
        assert!(Egress::public().and_loopback().check("h", "127.0.0.1".parse().unwrap()).is_ok());
    }

    #[tokio::test]
    async fn a_place_is_one_port_of_one_address() {
        let url = |text: &str| Url::parse(text).unwrap();
        let policy = Egress::public()
            .and_endpoint(&url("http://127.0.0.1:4000/agent"))
            .and_endpoint(&url("http://localhost:4001"))
            .and_endpoint(&url("https://[::1]"))
            .and_endpoint(&url("http://169.254.169.254"))
            .and_endpoint(&url("http://inner.example"));
        for (there, may) in [
            ("http://127.0.0.1:4000/x", true),
            ("http://127.0.0.1:22/", false),
            ("https://127.0.0.1:4000/", false),
            ("http://localhost:4001/x", true),
            ("http://localhost:4000/", false),
            ("https://localhost:4001/", false),
            ("https://[::1]:443/", true),
            ("http://[::1]/", false),
            ("http://127.0.0.2:4000/", false),
            ("http://169.254.169.254/", false),
        ] {
            let there = url(there);
            let host = there.host_str().unwrap();
            assert_eq!(policy.check_url(host, &there).is_ok(), may, "{there}");
        }
        assert!(policy.resolve("localhost", 4001).await.is_ok());
        assert!(policy.resolve("localhost", 22).await.is_err());
        // The owner of a name decides where it resolves, so a name is no endpoint.
        assert!(policy.allowed_endpoints.iter().all(|place| !place.is_named("inner.example", 80)));
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_refused_by_its_address() {
        let refused = Egress::public().resolve("localhost", 80).await;
        assert!(matches!(refused, Err(ResolveError::Refused(r)) if r.class == AddressClass::Loopback));
        let literal = Egress::public().resolve("[::1]", 80).await;
        assert!(matches!(literal, Err(ResolveError::Refused(_))));
        let kept = Egress::anywhere().resolve("127.0.0.1", 80).await.unwrap();
        assert_eq!(kept, ["127.0.0.1:80".parse().unwrap()]);
    }
}
