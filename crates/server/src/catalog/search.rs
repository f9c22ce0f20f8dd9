//! The search of the catalog: by skill, tag, media type and words, in pages by name.

use super::CatalogEntry;
use url::form_urlencoded::parse;

/// Agents on one page: the default, and the maximum.
const PAGE: usize = 50;
const PAGE_MAX: usize = 200;
/// Characters of one search term.
const TERM_CHARS_MAX: usize = 200;

/// A query. An agent must match every part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CatalogQuery {
    /// A skill has this id or name.
    pub(super) skill: Option<String>,
    /// A skill has this tag.
    pub(super) tag: Option<String>,
    /// The agent or one of its skills accepts or produces this media type.
    pub(super) mode: Option<String>,
    /// Each of these words is in a name, a description, a tag or an example.
    pub(super) text: Option<String>,
    /// Only agents with names after this one.
    pub(super) after: Option<String>,
    /// Maximum number of agents on the page.
    pub(super) limit: usize,
}

/// One page of the matching agents.
pub(super) struct CatalogPage {
    pub(super) entries: Vec<CatalogEntry>,
    /// The number of agents on all pages.
    pub(super) total: usize,
    /// The page token of the next page; `None` on the last one.
    pub(super) next: Option<String>,
}

impl CatalogQuery {
    /// Parses the query of a URL. An unknown parameter is an error, because a misspelt filter must not be ignored.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut wanted = Self { limit: PAGE, ..Self::default() };
        for (name, value) in parse(query.as_bytes()) {
            if value.chars().count() > TERM_CHARS_MAX {
                return Err(format!("{name:.20}: no more than {TERM_CHARS_MAX} characters are searched for"));
            }
            // HTML forms send empty fields too.
            let term = Some(value.trim().to_owned()).filter(|term| !term.is_empty());
            match &*name {
                "skill" => wanted.skill = term,
                "tag" => wanted.tag = term,
                "mode" => wanted.mode = term,
                "q" => wanted.text = term,
                "pageToken" => wanted.after = term,
                "limit" => {
                    let Some(term) = term else { continue };
                    let limit = term.parse().ok().filter(|n| (1..=PAGE_MAX).contains(n));
                    wanted.limit = limit.ok_or_else(|| format!("limit is between 1 and {PAGE_MAX}"))?;
                }
                other => {
                    let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
                    return Err(format!("{shown:?} is not known; there are q, skill, tag, mode, limit and pageToken"));
                }
            }
        }
        Ok(wanted)
    }

    /// The page of these entries, which are sorted by name.
    pub(super) fn page(&self, entries: Vec<CatalogEntry>) -> CatalogPage {
        let mut fit: Vec<CatalogEntry> = entries.into_iter().filter(|entry| self.matches(entry)).collect();
        let total = fit.len();
        if let Some(after) = &self.after {
            fit.retain(|entry| entry.name.as_str() > after.as_str());
        }
        let more = fit.len() > self.limit;
        fit.truncate(self.limit);
        let next = fit.last().filter(|_| more).map(|entry| entry.name.clone());
        CatalogPage { entries: fit, total, next }
    }

    fn matches(&self, entry: &CatalogEntry) -> bool {
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let skill = self
            .skill
            .as_deref()
            .is_none_or(|wanted| entry.skills.iter().any(|skill| same(&skill.id, wanted) || same(&skill.name, wanted)));
        let tag = self
            .tag
            .as_deref()
            .is_none_or(|wanted| entry.skills.iter().flat_map(|skill| &skill.tags).any(|tag| same(tag, wanted)));
        skill
            && tag
            && self.mode.as_deref().is_none_or(|mode| handles_media_type(entry, mode))
            && self.matches_text(entry)
    }

    fn matches_text(&self, entry: &CatalogEntry) -> bool {
        let Some(text) = &self.text else { return true };
        let mut said = vec![entry.name.as_str(), &entry.display_name, &entry.description];
        said.extend(entry.provider.iter().map(|provider| provider.organization.as_str()));
        for skill in &entry.skills {
            said.extend([skill.id.as_str(), &skill.name, &skill.description]);
            said.extend(skill.tags.iter().chain(&skill.examples).map(String::as_str));
        }
        let said: Vec<String> = said.into_iter().map(str::to_lowercase).collect();
        text.split_whitespace().all(|word| {
            let word = word.to_lowercase();
            said.iter().any(|text| text.contains(&word))
        })
    }
}

/// Whether an agent accepts or produces a media type; `*/*` and `text/*` in a card cover all that they match.
fn handles_media_type(entry: &CatalogEntry, wanted: &str) -> bool {
    let wanted = wanted.to_ascii_lowercase();
    let covers = |mode: &String| {
        let mode = mode.to_ascii_lowercase();
        mode == wanted || mode == "*/*" || mode.strip_suffix('*').is_some_and(|kind| wanted.starts_with(kind))
    };
    let skills = entry.skills.iter().flat_map(|skill| skill.input_modes.iter().chain(&skill.output_modes));
    entry.input_modes.iter().chain(&entry.output_modes).chain(skills).any(covers)
}

#[cfg(test)]
mod tests {
    use super::super::{AgentHealth, HealthState};
    use super::*;
    use sabir_proto::card::Skill;

    fn entry(name: &str, tag: &str, mode: &str) -> CatalogEntry {
        let skill = Skill {
            id: format!("{name}-skill"),
            name: "Does it".into(),
            description: "Reconciles the books of March".into(),
            tags: vec![tag.into()],
            examples: vec!["close the quarter".into()],
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        };
        CatalogEntry {
            name: name.into(),
            display_name: name.to_uppercase(),
            description: String::new(),
            version: "1".into(),
            provider: None,
            card_url: String::new(),
            interfaces: Vec::new(),
            skills: vec![skill],
            input_modes: vec![mode.into()],
            output_modes: Vec::new(),
            health: AgentHealth { state: HealthState::Up, heard_at: None },
        }
    }

    fn found(query: &str) -> Vec<String> {
        let entries = vec![entry("a", "money", "text/*"), entry("b", "Money", "image/png"), entry("c", "law", "*/*")];
        CatalogQuery::parse(query).unwrap().page(entries).entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn agents_are_found_by_what_is_said_of_them() {
        assert_eq!(found(""), ["a", "b", "c"]);
        assert_eq!(found("tag=money"), ["a", "b"]);
        assert_eq!(found("tag=money&mode=text/plain"), ["a"]);
        assert_eq!(found("mode=image/png"), ["b", "c"]);
        assert_eq!(found("skill=b-skill"), ["b"]);
        assert_eq!(found("q=quarter+BOOKS&tag=law"), ["c"]);
        assert_eq!(found("q=nothing+books"), Vec::<String>::new());
        assert_eq!(found("skill=&q="), ["a", "b", "c"]);
    }

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let entries = || ["a", "b", "c"].map(|name| entry(name, "t", "*/*")).to_vec();
        let first = CatalogQuery::parse("limit=2").unwrap().page(entries());
        assert_eq!((first.entries.len(), first.total, first.next.as_deref()), (2, 3, Some("b")));
        let last = CatalogQuery::parse("limit=2&pageToken=b").unwrap().page(entries());
        assert_eq!((last.entries.len(), last.total, last.next), (1, 3, None));
        for bad in ["limit=0", "limit=201", "limit=x", "skil=x", &format!("q={}", "x".repeat(201))] {
            assert!(CatalogQuery::parse(bad).is_err(), "{bad}");
        }
    }
}
