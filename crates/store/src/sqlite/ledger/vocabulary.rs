//! The vocabulary of venues: each word is stored once, and a venue refers to the words in its texts.
//!
//! A search term is part of a venue's texts if it is part of one of their words, since neither has spaces. So a search
//! first finds the words that contain the term, and then the venues that have one of those: both are short lists,
//! however many venues there are. A location may have spaces; areas and cities are words of their own kind.
//!
//! The index may return too many venues, because it treats more letters as equal. The caller compares each of them.

use crate::ledger::{NormalizedVenueQuery, Venue, fold_case};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

/// Words that one term may match. A term that matches more narrows the search too little, and is not used.
const MATCHES_MAX: usize = 512;
/// Characters that a text needs for the index of parts.
const INDEXED_CHARS_MIN: usize = 3;

/// The words that a query matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WordMatch {
    /// The words do not narrow the search.
    Anything,
    /// No word matches.
    Nothing,
    /// Venues with these words; a query for `venue_text`.
    These(String),
}

/// A kind of word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WordKind {
    Word,
    Place,
    Category,
}

impl WordKind {
    const fn number(self) -> i64 {
        match self {
            Self::Word => 0,
            Self::Place => 1,
            Self::Category => 2,
        }
    }

    /// The first letter of its tokens.
    const fn letter(self) -> char {
        match self {
            Self::Word => 'w',
            Self::Place => 'p',
            Self::Category => 'c',
        }
    }

    /// Its column in the index of parts, if it has one.
    const fn column(self) -> Option<&'static str> {
        match self {
            Self::Word => Some("word"),
            Self::Place => Some("place"),
            Self::Category => None,
        }
    }
}

/// Finds the words that a query matches.
pub(super) fn match_words(connection: &Connection, wanted: &NormalizedVenueQuery) -> rusqlite::Result<WordMatch> {
    // A term with a space is part of no word; the caller compares it.
    let terms =
        wanted.terms.iter().filter(|term| !term.contains(char::is_whitespace)).map(|term| (WordKind::Word, term));
    let places = wanted.location.iter().map(|place| (WordKind::Place, place));
    let mut question = String::new();
    for (kind, text) in places.chain(terms) {
        match matching_words(connection, kind, text)? {
            ids if ids.is_empty() => return Ok(WordMatch::Nothing),
            ids if ids.len() > MATCHES_MAX => {}
            ids => push_clause(&mut question, kind, &ids),
        }
    }
    // A category alone has a better index.
    if let Some(category) = wanted.category.as_ref().filter(|_| !question.is_empty()) {
        let sql = "SELECT id FROM venue_word WHERE kind = ?1 AND text = ?2";
        let asked = params![WordKind::Category.number(), category];
        match connection.prepare_cached(sql)?.query_row(asked, |row| row.get(0)).optional()? {
            Some(id) => push_clause(&mut question, WordKind::Category, &[id]),
            None => return Ok(WordMatch::Nothing),
        }
    }
    Ok(if question.is_empty() { WordMatch::Anything } else { WordMatch::These(question) })
}

fn push_clause(question: &mut String, kind: WordKind, ids: &[i64]) {
    question.push_str(if question.is_empty() { "(" } else { " AND (" });
    for (i, id) in ids.iter().enumerate() {
        let joint = if i == 0 { "" } else { " OR " };
        // Writing to a text does not fail.
        write!(question, "{joint}{}{id}", kind.letter()).unwrap_or_default();
    }
    question.push(')');
}

/// The words that contain a text, up to one more than the limit.
fn matching_words(connection: &Connection, kind: WordKind, text: &str) -> rusqlite::Result<Vec<i64>> {
    let limit = i64::try_from(MATCHES_MAX + 1).unwrap_or(i64::MAX);
    let is_indexed = text.chars().count() >= INDEXED_CHARS_MIN && !text.contains('\0');
    match kind.column().filter(|_| is_indexed) {
        Some(column) => {
            // Quoted, so that the caller's text is not parsed as query syntax.
            let question = format!("{column} : \"{}\"", text.replace('"', "\"\""));
            let sql = "SELECT rowid FROM venue_word_text WHERE venue_word_text MATCH ?1 LIMIT ?2";
            connection.prepare_cached(sql)?.query_map(params![question, limit], |row| row.get(0))?.collect()
        }
        None => {
            let sql = "SELECT id FROM venue_word WHERE kind = ?1 AND instr(text, ?2) > 0 LIMIT ?3";
            let asked = params![kind.number(), text, limit];
            connection.prepare_cached(sql)?.query_map(asked, |row| row.get(0))?.collect()
        }
    }
}

/// The ids of the words met during one import.
#[derive(Debug, Default)]
pub(super) struct Vocabulary(HashMap<(WordKind, String), i64>);

impl Vocabulary {
    /// Indexes the words of an active venue.
    pub(super) fn index(&mut self, connection: &Connection, n: i64, venue: &Venue) -> rusqlite::Result<()> {
        if !venue.active {
            return Ok(());
        }
        let said = [Some(&*venue.name), venue.description.as_deref(), Some(&*venue.category)];
        let said: Vec<String> = said.into_iter().flatten().map(fold_case).collect();
        let words = said.iter().flat_map(|text| text.split_whitespace()).map(|word| (WordKind::Word, word.to_owned()));
        let places = [venue.area.as_deref(), venue.city.as_deref()];
        let places = places.into_iter().flatten().map(|place| (WordKind::Place, fold_case(place)));
        let category = (WordKind::Category, venue.category.to_ascii_lowercase());
        let mut tokens = BTreeSet::new();
        for (kind, text) in words.chain(places).chain([category]) {
            tokens.insert(format!("{}{}", kind.letter(), self.id(connection, kind, text)?));
        }
        let tokens: Vec<String> = tokens.into_iter().collect();
        let sql = "INSERT INTO venue_text (rowid, tokens) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute(params![n, tokens.join(" ")])?;
        Ok(())
    }

    fn id(&mut self, connection: &Connection, kind: WordKind, text: String) -> rusqlite::Result<i64> {
        if let Some(id) = self.0.get(&(kind, text.clone())) {
            return Ok(*id);
        }
        let sql = "INSERT INTO venue_word (kind, text) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        let added = connection.prepare_cached(sql)?.execute(params![kind.number(), text])?;
        let sql = "SELECT id FROM venue_word WHERE kind = ?1 AND text = ?2";
        let id = connection.prepare_cached(sql)?.query_row(params![kind.number(), text], |row| row.get(0))?;
        if let (1, Some(column)) = (added, kind.column()) {
            let sql = format!("INSERT INTO venue_word_text (rowid, {column}) VALUES (?1, ?2)");
            connection.prepare_cached(&sql)?.execute(params![id, text])?;
        }
        self.0.insert((kind, text), id);
        Ok(id)
    }
}
