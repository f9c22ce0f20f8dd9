//! The origins that may receive our credentials.
//!
//! A card names the URL of its agent, so an attacker that changes the card could redirect our credentials. Credentials
//! therefore go only to the origin that the operator configured (scheme, host and port) and to other configured
//! origins. On a shared host another port may be another tenant. The client creates every transport in one place, which
//! checks this first.

use crate::Error;
use crate::interface_choice::ChosenInterface;
use url::Url;

/// The origins that may receive the credentials of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialOrigins {
    agent_url: Url,
    origins: Vec<String>,
}

impl CredentialOrigins {
    /// The origin of this URL, and other origins.
    pub fn new(agent_url: Url, origins: impl IntoIterator<Item = String>) -> Self {
        Self { agent_url, origins: origins.into_iter().collect() }
    }

    /// Refuses an interface whose URL is at any other origin.
    pub(crate) fn check(&self, chosen: &ChosenInterface) -> Result<(), Error> {
        match std::iter::once(&chosen.url).chain(&chosen.fallback_urls).find(|url| !self.includes(url)) {
            None => Ok(()),
            Some(url) => {
                let origin = url.origin().ascii_serialization();
                Err(Error::Usage(format!(
                    "its card leads to {origin}, where its credentials are not to be shown; if that is the same agent, \
                     add it to its origins"
                )))
            }
        }
    }

    fn includes(&self, url: &Url) -> bool {
        let origin = url.origin();
        let is_listed = |allowed: &String| Url::parse(allowed).is_ok_and(|allowed| allowed.origin() == origin);
        origin == self.agent_url.origin() || self.origins.iter().any(is_listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_and_what_stands_beside_it() {
        let url = |text: &str| Url::parse(text).unwrap();
        let beside = ["https://beside:8443/".to_owned(), "https://H2:443".to_owned()];
        let audience = CredentialOrigins::new(url("https://h/card.json"), beside);
        for (there, may) in [
            ("https://h/rpc", true),
            ("https://h:443/rpc", true),
            ("https://h:8443/rpc", false),
            ("http://h/rpc", false),
            ("https://h2/rpc", true),
            ("https://beside:8443/x", true),
            ("https://beside/x", false),
            ("https://h.evil/rpc", false),
        ] {
            assert_eq!(audience.includes(&url(there)), may, "{there}");
        }
    }
}
