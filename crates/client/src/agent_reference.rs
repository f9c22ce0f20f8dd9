//! References: the ways to name an agent.

use crate::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use url::{Host, Url};

/// The place of an agent or its card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentReference {
    /// An origin: the card is at one of its well-known paths.
    Origin(Url),
    /// A URL with a path: of a card, of a catalog, or of an agent with well-known paths below it.
    Url(Url),
    /// The path of a card file.
    File(PathBuf),
}

impl AgentReference {
    /// Parses a host, an origin, a URL, a `file://` URL or a path.
    ///
    /// A text with a URL scheme is a URL; a text that starts like a path, or names an existing file, is a path; any
    /// other text is a host, called over `https` unless it is this machine.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Usage("the agent is given by a host, a URL or a file; this is empty".into()));
        }
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        if lower.starts_with("http://") || lower.starts_with("https://") {
            return Self::of_url(text);
        }
        if lower.starts_with("file://") {
            let url = Url::parse(text).map_err(|e| Error::Usage(format!("{text}: {e}")))?;
            let path =
                url.to_file_path().map_err(|()| Error::Usage(format!("{text} names no file of this machine")))?;
            return Ok(Self::File(path));
        }
        if text.starts_with(['/', '.', '~']) || Path::new(text).is_file() {
            return Ok(Self::File(home(text)));
        }
        if text.contains("://") {
            return Err(Error::Usage(format!("{text}: only http, https and file URLs name an agent")));
        }
        // The text is a host, perhaps with a port and a path.
        let probe = Url::parse(&format!("https://{text}"))
            .map_err(|e| Error::Usage(format!("{text} is neither a host nor a URL nor a file: {e}")))?;
        if is_loopback(&probe) {
            Self::of_url(&format!("http://{text}"))
        } else {
            Self::of_url(&format!("https://{text}"))
        }
    }

    fn of_url(text: &str) -> Result<Self, Error> {
        let url = Url::parse(text).map_err(|e| Error::Usage(format!("{text} is not a URL: {e}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::Usage("credentials do not belong in a URL".into()));
        }
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        Ok(if bare { Self::Origin(url) } else { Self::Url(url) })
    }
}

impl std::str::FromStr for AgentReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for AgentReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Url(url) => f.write_str(url.as_str()),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Whether a URL names this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_an_agent_is_told_apart() {
        let origin = |t: &str| AgentReference::Origin(Url::parse(t).unwrap());
        let at = |t: &str| AgentReference::Url(Url::parse(t).unwrap());
        for (text, expected) in [
            ("ledger.example", origin("https://ledger.example/")),
            ("ledger.example:8443", origin("https://ledger.example:8443/")),
            ("localhost:8080", origin("http://localhost:8080/")),
            ("127.0.0.1:8080", origin("http://127.0.0.1:8080/")),
            ("[::1]:8080", origin("http://[::1]:8080/")),
            ("http://h", origin("http://h/")),
            ("HTTPS://h/", origin("https://h/")),
            ("https://h/a/card.json", at("https://h/a/card.json")),
            ("h/agents/x", at("https://h/agents/x")),
            ("https://h/catalog.json#id", at("https://h/catalog.json#id")),
            ("/etc/card.json", AgentReference::File("/etc/card.json".into())),
            ("./card.json", AgentReference::File("./card.json".into())),
            ("file:///tmp/a%20b.json", AgentReference::File("/tmp/a b.json".into())),
        ] {
            assert_eq!(AgentReference::parse(text).unwrap(), expected, "{text}");
        }
        for bad in ["", "  ", "ftp://h/x", "https://", "https://user:pw@h/", "a b"] {
            assert!(matches!(AgentReference::parse(bad), Err(Error::Usage(_))), "{bad}");
        }
    }
}
