//! Finding an agent's card: well-known places old and new, files, catalogs, and what was found before.
//!
//! No credential ever travels to a card: the door is used without our certificate, and no header of the caller's is
//! sent along, only the version we speak.

use crate::cache::Cache;
use crate::catalog::{self, Entry};
use crate::door::Door;
use crate::{Error, Reference};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sabir_proto::AgentCard;
use sabir_wire::card::{CARD_BYTES_MAX, Form, Lint, XprIdentity};
use sabir_wire::{Losses, card, version};
use url::Url;

/// Where cards are, in the order in which they are looked for: since 0.3, and before.
pub const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// A card that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// What it says.
    pub card: AgentCard,
    /// What it looks like.
    pub form: Form,
    /// Where it is; `None` for a file.
    pub url: Option<Url>,
    /// Where it departs from the rules of its form.
    pub lint: Vec<Lint>,
    /// What 1.0 has no place for.
    pub losses: Losses,
    /// Who the agent is on the XPR network, if it is there.
    pub xpr: Option<XprIdentity>,
    /// What the program that served it calls itself.
    pub server: Option<String>,
    json: String,
}

impl Found {
    /// Reads a card.
    pub fn read(json: &[u8], url: Option<Url>, at: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::CardInvalid { at: at.into(), reason };
        let text = std::str::from_utf8(json).map_err(|_| invalid("it is not UTF-8".into()))?;
        let read = card::read(json).map_err(|fault| invalid(fault.to_string()))?;
        // Much can be missing from a card and the agent be of use all the same; an address cannot.
        if read.card.supported_interfaces.is_empty() {
            let lacking: Vec<String> = read.lint.iter().map(ToString::to_string).collect();
            let more = if lacking.is_empty() { String::new() } else { format!("; {}", lacking.join("; ")) };
            return Err(invalid(format!("it lists no interface{more}")));
        }
        let (lint, losses, xpr) = (read.lint, read.losses, read.xpr);
        let json = text.trim().to_owned();
        Ok(Self { card: read.card, form: read.form, url, lint, losses, xpr, server: None, json })
    }

    /// A card that nobody showed.
    pub(crate) fn made(card: AgentCard, form: Form, url: Url, json: String) -> Self {
        Self { card, form, url: Some(url), lint: Vec::new(), losses: Losses::new(), xpr: None, server: None, json }
    }

    /// The card as it was found.
    pub fn as_found(&self) -> &str {
        &self.json
    }

    /// The card as A2A 1.0 JSON: as it was found where it is of that form.
    pub fn json(&self) -> String {
        match self.form {
            Form::V1 | Form::Hybrid => self.json.clone(),
            Form::V03 | Form::V02 | Form::V01 | Form::Native | Form::Xpr => {
                let bytes = card::write(&self.card, Form::V1, &mut Losses::new());
                String::from_utf8_lossy(&bytes).into_owned()
            }
        }
    }
}

/// Looks for cards.
#[derive(Clone)]
pub(crate) struct Finder {
    pub(crate) door: Door,
    pub(crate) cache: Option<Cache>,
    pub(crate) version: HeaderValue,
}

/// What a document turned out to be.
enum Document {
    Card(Box<Found>),
    Catalog(String),
}

impl Finder {
    /// Finds the card of an agent.
    pub(crate) async fn find(&self, reference: &Reference) -> Result<Found, Error> {
        match reference {
            Reference::File(path) => {
                let at = path.display().to_string();
                let missing = |e: std::io::Error| Error::CardNotFound { at: at.clone(), reason: e.to_string() };
                if std::fs::metadata(path).map_err(missing)?.len() > CARD_BYTES_MAX as u64 {
                    return Err(Error::TooLarge { what: "the agent card", limit: CARD_BYTES_MAX });
                }
                Found::read(&std::fs::read(path).map_err(missing)?, None, &at)
            }
            Reference::Origin(origin) => self.well_known(origin, None).await,
            Reference::At(url) => match self.document(url).await {
                Ok(Document::Card(found)) => Ok(*found),
                Ok(Document::Catalog(text)) => self.in_catalog(url, text).await,
                // An agent rather than its card: the card is below it.
                Err(first @ (Error::CardNotFound { .. } | Error::CardInvalid { .. })) if url.fragment().is_none() => {
                    self.well_known(url, Some(first)).await
                }
                Err(other) => Err(other),
            },
        }
    }

    /// Looks at the well-known places below a URL. `first` is what was at the URL itself.
    async fn well_known(&self, base: &Url, first: Option<Error>) -> Result<Found, Error> {
        let mut missing = None;
        for path in WELL_KNOWN.into_iter().chain([catalog::WELL_KNOWN]) {
            let at = below(base, path);
            match self.document(&at).await {
                Ok(Document::Card(found)) => return Ok(*found),
                Ok(Document::Catalog(text)) => return self.in_catalog(&at, text).await,
                Err(error @ Error::CardNotFound { .. }) => {
                    missing.get_or_insert(error);
                }
                // Below an agent's own path many servers answer anything; what they said of the path itself is better.
                Err(error @ Error::CardInvalid { .. }) if first.is_some() => {
                    missing.get_or_insert(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(first
            .or(missing)
            .unwrap_or_else(|| Error::CardNotFound { at: base.to_string(), reason: "nothing there".into() }))
    }

    async fn in_catalog(&self, url: &Url, text: String) -> Result<Found, Error> {
        let (mut at, mut text) = (url.clone(), text);
        for _ in 0..catalog::DEPTH_MAX {
            match catalog::pick(&text, at.fragment().or_else(|| url.fragment()), &at)? {
                Entry::Inline(card) => return Found::read(card.as_bytes(), Some(at.clone()), at.as_str()),
                Entry::At(target) => match self.document(&target).await? {
                    Document::Card(found) => return Ok(*found),
                    Document::Catalog(inner) => (at, text) = (target, inner),
                },
            }
        }
        Err(Error::CardNotFound {
            at: url.to_string(),
            reason: format!("catalogs are nested more than {} deep", catalog::DEPTH_MAX),
        })
    }

    async fn document(&self, url: &Url) -> Result<Document, Error> {
        let (text, server) = self.text(url).await?;
        if catalog::is_one(&text) {
            return Ok(Document::Catalog(text));
        }
        let found = Found::read(text.as_bytes(), Some(url.clone()), url.as_str())?;
        Ok(Document::Card(Box::new(Found { server, ..found })))
    }

    /// Fetches a document, from the cache if it may be, and says who served it.
    async fn text(&self, url: &Url) -> Result<(String, Option<String>), Error> {
        let mut target = url.clone();
        target.set_fragment(None);
        let kept = self.cache.as_ref().and_then(|cache| cache.find(&target));
        if let Some(kept) = kept.as_ref().filter(|k| k.is_fresh()) {
            return Ok((kept.body.clone(), kept.server.clone()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, application/a2a+json"));
        headers.insert(version::HEADER, self.version.clone());
        if let Some(condition) = kept.as_ref().and_then(crate::cache::Kept::condition) {
            headers.insert(header::IF_NONE_MATCH, condition);
        }
        let (_, answer) = self.door.fetch(&target, headers).await?;
        let (status, heads) = (answer.status, answer.headers.clone());
        if let (StatusCode::NOT_MODIFIED, Some(kept), Some(cache)) = (status, &kept, &self.cache) {
            cache.keep(&target, &heads, &kept.body);
            return Ok((kept.body.clone(), kept.server.clone()));
        }
        match status.as_u16() {
            200..=299 => {}
            status @ (401 | 403) => return Err(Error::CardForbidden { at: target.to_string(), status }),
            502..=504 => {
                let reason = format!("HTTP {status}");
                return Err(Error::Unreachable { host: answer.host.clone(), reason, safe: false });
            }
            _ => return Err(Error::CardNotFound { at: target.to_string(), reason: format!("HTTP {status}") }),
        }
        let html = answer.media_type() == "text/html";
        let body = answer.body("the agent card", CARD_BYTES_MAX).await?;
        let invalid = |reason: &str| Error::CardInvalid { at: target.to_string(), reason: reason.into() };
        let text = String::from_utf8(body.to_vec()).map_err(|_| invalid("it is not UTF-8"))?;
        if html && !text.trim_start().starts_with('{') {
            return Err(invalid("it is a web page"));
        }
        if let Some(cache) = &self.cache {
            cache.keep(&target, &heads, &text);
        }
        Ok((text, crate::cache::server(&heads)))
    }
}

/// A well-known path below a URL.
fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_query(None);
    url.set_fragment(None);
    url
}
