//! The addresses of a server: the public one, and the names under which it may be called.

use crate::card::PublicAddress;
use crate::config::Config;
use std::net::SocketAddr;

/// The public address of a server that listens at an address.
pub(crate) fn public_address(config: &Config, address: SocketAddr) -> PublicAddress {
    match &config.server.public_url {
        Some(url) => {
            let slash = url.ends_with('/');
            let url = url.trim_end_matches('/').to_owned();
            let host = url.split_once("://").map_or(&*url, |(_, rest)| rest);
            let host = host.split('/').next().unwrap_or(host);
            // A gRPC target needs its port, also where the URL may leave it out.
            let port = if url.starts_with("https://") { 443 } else { 80 };
            let has_port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
            let authority = if has_port { host.to_owned() } else { format!("{host}:{port}") };
            PublicAddress { authority, url, slash }
        }
        None => PublicAddress {
            url: url(config.server.own_tls().is_some(), address),
            authority: address.to_string(),
            slash: true,
        },
    }
}

/// The URL of a server that listens at an address.
pub(crate) fn url(secured: bool, address: SocketAddr) -> String {
    format!("{}://{address}", if secured { "https" } else { "http" })
}

/// The names under which this server may be called.
pub(crate) fn authorities(public: &PublicAddress, address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let mut names = vec![public.authority.clone(), address.to_string(), format!("localhost:{port}")];
    names.extend([format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    let bare = |name: &String| name.strip_suffix(":80").or_else(|| name.strip_suffix(":443")).map(str::to_owned);
    let bare: Vec<String> = names.iter().filter_map(bare).collect();
    names.extend(bare);
    names
}
