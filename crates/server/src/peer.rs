//! The other end of a connection, as far as the socket shows it.
//!
//! It is known from the first byte on, and each request of the connection gets a copy as a separate argument: the
//! extensions of a request would cost three allocations, and this costs none. It does not identify the caller. The
//! guard does that, with the address for its limits and the certificate for its check.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The address; IPv4 is never in the form of IPv6.
    pub(crate) address: IpAddr,
    /// Whether the connection is encrypted, so that no one on the way can read it.
    pub(crate) tls: bool,
    /// Whether the TLS version is older than 1.3, as far as this server can tell.
    pub(crate) is_older_tls: bool,
    /// The client certificate, in DER. A configured authority has signed it.
    pub(crate) certificate: Option<Arc<[u8]>>,
}

impl Peer {
    /// A peer on a connection without TLS.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { address: address.ip().to_canonical(), tls: false, is_older_tls: false, certificate: None }
    }

    /// Sets the facts of the TLS session after the handshake.
    pub(crate) fn set_tls_session(&mut self, session: &rustls::ServerConnection) {
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
