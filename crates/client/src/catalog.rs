//! AI Catalog documents: lists of agents, of which a fragment picks one.

use crate::Error;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

/// Where a catalog is, at a host that has no card of its own.
pub(crate) const WELL_KNOWN: &str = "/.well-known/ai-catalog.json";
/// How deep catalogs may be nested.
pub(crate) const DEPTH_MAX: usize = 4;
/// The media type of an entry that is an agent card.
const CARD_TYPE: &str = "application/a2a-agent-card+json";
/// The media type of an entry that is a catalog again.
const CATALOG_TYPE: &str = "application/ai-catalog+json";

/// Where the card of a catalog entry is.
pub(crate) enum EntryCard {
    /// The document at this URL.
    At(Url),
    /// The card is inline in the catalog.
    Inline(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Catalog<'a> {
    #[serde(borrow)]
    spec_version: Option<&'a RawValue>,
    #[serde(borrow)]
    entries: Option<Vec<CatalogEntry<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CatalogEntry<'a> {
    #[serde(default)]
    identifier: String,
    #[serde(default)]
    media_type: String,
    /// Earlier drafts have it under this name, some documents under both.
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl CatalogEntry<'_> {
    fn media_type(&self) -> &str {
        if self.media_type.is_empty() { &self.kind } else { &self.media_type }
    }
}

fn read(text: &str) -> Option<Vec<CatalogEntry<'_>>> {
    let catalog: Catalog<'_> = serde_json::from_str(text).ok()?;
    catalog.spec_version?;
    catalog.entries
}

/// Whether a document is a catalog.
pub(crate) fn is_catalog(text: &str) -> bool {
    read(text).is_some()
}

/// Picks an entry: the one that is named, or the only agent there is.
pub(crate) fn pick_entry(text: &str, name: Option<&str>, at: &Url) -> Result<EntryCard, Error> {
    let entries = read(text).unwrap_or_default();
    let is_card = |e: &&CatalogEntry<'_>| e.media_type().is_empty() || e.media_type() == CARD_TYPE;
    let named: Vec<&CatalogEntry<'_>> = match name {
        Some(name) => entries.iter().filter(|e| e.identifier == name).collect(),
        None => entries.iter().filter(is_card).collect(),
    };
    // A name that is not here may be in a catalog below; without a name, so may be the only agent.
    let nested: Vec<&CatalogEntry<'_>> = entries.iter().filter(|e| e.media_type() == CATALOG_TYPE).collect();
    let one = match (named.as_slice(), nested.as_slice()) {
        ([one], _) => one,
        ([], [below]) => below,
        ([], []) => {
            let reason = match name {
                Some(name) => format!("the catalog has no entry {name:?}"),
                None => "the catalog lists no agent".into(),
            };
            return Err(Error::CardNotFound { at: at.to_string(), reason });
        }
        _ => {
            let names: Vec<&str> = entries.iter().map(|e| e.identifier.as_str()).collect();
            return Err(Error::Usage(format!(
                "the catalog lists several agents; add one of these to the reference after #: {}",
                names.join(", ")
            )));
        }
    };
    let nothing =
        || Error::CardInvalid { at: at.to_string(), reason: format!("entry {:?} leads nowhere", one.identifier) };
    match (&one.url, one.data) {
        (_, Some(data)) => Ok(EntryCard::Inline(data.get().to_owned())),
        (Some(url), None) => {
            let mut target = at.join(url).map_err(|_| nothing())?;
            if one.media_type() == CATALOG_TYPE {
                target.set_fragment(name);
            }
            Ok(EntryCard::At(target))
        }
        (None, None) => Err(nothing()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"specVersion":"1.0","entries":[
        {"identifier":"a","mediaType":"application/a2a-agent-card+json","url":"/a.json"},
        {"identifier":"b","mediaType":"application/a2a-agent-card+json","data":{"name":"B"}}]}"#;

    fn at() -> Url {
        Url::parse("https://h/catalog.json").unwrap()
    }

    #[test]
    fn an_entry_is_picked_by_name_and_several_are_not_guessed_between() {
        assert!(is_catalog(TWO) && !is_catalog(r#"{"name":"x","entries":[]}"#) && !is_catalog("<html>"));
        assert!(matches!(pick_entry(TWO, Some("a"), &at()), Ok(EntryCard::At(u)) if u.as_str() == "https://h/a.json"));
        assert!(matches!(pick_entry(TWO, Some("b"), &at()), Ok(EntryCard::Inline(t)) if t == r#"{"name":"B"}"#));
        assert!(matches!(pick_entry(TWO, None, &at()), Err(Error::Usage(m)) if m.contains("a, b")));
        assert!(matches!(pick_entry(TWO, Some("c"), &at()), Err(Error::CardNotFound { .. })));
    }

    #[test]
    fn a_name_that_is_not_here_is_looked_for_below() {
        let nested = r#"{"specVersion":"1.0","entries":[{"identifier":"more","mediaType":"application/ai-catalog+json","url":"more.json"}]}"#;
        assert!(
            matches!(pick_entry(nested, Some("x"), &at()), Ok(EntryCard::At(u)) if u.as_str() == "https://h/more.json#x")
        );
    }
}
