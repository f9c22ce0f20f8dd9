//! Who is at the other end of a connection, as far as sockets can tell.
//!
//! A connection knows it from its first byte on, and each of its requests is handed a copy, beside the request: the
//! extensions of a request would cost three allocations, and this costs none. It says nothing about who is calling: that
//! is for the guard to find out, which needs the address for its limits and the certificate for its check.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its address; one of IPv4 is always written as such.
    pub(crate) address: IpAddr,
    /// Whether what it says can be read by nobody on the way.
    pub(crate) tls: bool,
    /// By a version of TLS before 1.3, as far as this end of it can tell.
    pub(crate) is_older_tls: bool,
    /// The certificate it showed, in DER. One that is here was vouched for by a configured authority.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

impl Peer {
    /// One that speaks plain HTTP.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { address: address.ip().to_canonical(), tls: false, is_older_tls: false, certificate: None }
    }

    /// Now that hands were shaken.
    pub(crate) fn learn(&mut self, session: &rustls::ServerConnection) {
        self.tls = true;
        self.is_older_tls = session.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3);
        let certificates = session.peer_certificates().unwrap_or_default();
        self.certificate = certificates.first().map(|certificate| Arc::from(&**certificate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv4_is_one_however_it_came() {
        let peer = |text: &str| Peer::plain(text.parse().unwrap()).address.to_string();
        assert_eq!(peer("[::ffff:192.0.2.7]:4000"), "192.0.2.7");
        assert_eq!(peer("192.0.2.7:4000"), "192.0.2.7");
        assert_eq!(peer("[2001:db8::7]:4000"), "2001:db8::7");
    }
}
