//! Where what we show may go.
//!
//! A card says where its agent is, and whoever can change the card could have our credentials sent anywhere. So they go to
//! the host that somebody wrote down, and to origins that stand beside it. Every line of a client is made in one place,
//! which asks here first.

use crate::Error;
use crate::choose::Chosen;
use url::Url;

/// Those who may see what we show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audience {
    home: Url,
    origins: Vec<String>,
}

impl Audience {
    /// The host of this URL, and other origins.
    pub fn new(home: Url, origins: impl IntoIterator<Item = String>) -> Self {
        Self { home, origins: origins.into_iter().collect() }
    }

    /// Refuses an interface that leads anywhere else.
    pub(crate) fn admit(&self, chosen: &Chosen) -> Result<(), Error> {
        match std::iter::once(&chosen.url).chain(&chosen.others).find(|url| !self.includes(url)) {
            None => Ok(()),
            Some(url) => {
                let origin = url.origin().ascii_serialization();
                Err(Error::Usage(format!("its card leads to {origin}, where its credentials are not to be shown")))
            }
        }
    }

    fn includes(&self, url: &Url) -> bool {
        let home = url.host() == self.home.host() && (url.scheme() == "https" || self.home.scheme() == "http");
        let origin = url.origin().ascii_serialization();
        home || self.origins.iter().any(|allowed| allowed.trim_end_matches('/') == origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_and_what_stands_beside_it() {
        let url = |text: &str| Url::parse(text).unwrap();
        let audience = Audience::new(url("https://h/card.json"), ["https://beside:8443/".to_owned()]);
        for (there, may) in [
            ("https://h/rpc", true),
            ("https://h:8443/rpc", true),
            ("http://h/rpc", false),
            ("https://beside:8443/x", true),
            ("https://beside/x", false),
            ("https://h.evil/rpc", false),
        ] {
            assert_eq!(audience.includes(&url(there)), may, "{there}");
        }
    }
}
