//! Ranking with SQLite's full-text search: BM25 over the fields, words by their stems.
//!
//! FTS5 was chosen because SQLite is here already. Its weakness is small sets: a word that is in half of all rows or
//! more counts for nothing. So filler rows stand beside ours, as long as ours are on average, and a word that only one
//! of two agents has counts as it should.

use crate::StoreError;
use crate::ranking::{RANKING_FIELDS, RankingCandidate, RankingMatch};
use rusqlite::{Connection, params_from_iter};

/// The number of filler rows.
const FILLER_ROWS: usize = 64;
/// A word that occurs in no real text.
const FILLER: &str = "zqxfiller";
/// Words of a text that are searched for: the first distinct ones, for a page of text is no query.
const WORDS_MAX: usize = 64;
/// The most rows that are ranked.
const ROWS_MAX: usize = 10_000;
/// Stop words, which say nothing about the intent of a query.
const STOP: [&str; 42] = [
    "a", "an", "and", "are", "at", "be", "can", "could", "do", "does", "for", "from", "have", "how", "i", "in", "is",
    "it", "its", "me", "my", "of", "on", "or", "our", "please", "that", "the", "this", "to", "us", "was", "we", "what",
    "when", "where", "which", "who", "will", "with", "you", "your",
];

/// Ranks with SQLite's full-text search, in memory and for one query.
pub(crate) fn rank(text: &str, all: &[RankingCandidate]) -> Result<Vec<RankingMatch>, StoreError> {
    let Some(question) = question(text) else { return Ok(Vec::new()) };
    search(&question, &all[..all.len().min(ROWS_MAX)]).map_err(|e| StoreError::Io(e.to_string()))
}

fn search(question: &str, all: &[RankingCandidate]) -> rusqlite::Result<Vec<RankingMatch>> {
    let db = Connection::open_in_memory()?;
    let columns = RANKING_FIELDS.map(|(name, _)| name).join(", ");
    db.execute_batch(&format!(
        "CREATE VIRTUAL TABLE entry USING fts5(key UNINDEXED, {columns}, tokenize = 'porter unicode61 remove_diacritics 2')"
    ))?;
    {
        let marks = ["?"; RANKING_FIELDS.len() + 1].join(", ");
        let mut insert = db.prepare(&format!("INSERT INTO entry VALUES ({marks})"))?;
        for one in all {
            insert.execute(params_from_iter([&one.key].into_iter().chain(&one.fields)))?;
        }
        let filler: Vec<String> = (0..RANKING_FIELDS.len())
            .map(|at| {
                let words: usize = all.iter().map(|one| one.fields[at].split_whitespace().count()).sum();
                vec![FILLER; words.div_ceil(all.len().max(1))].join(" ")
            })
            .collect();
        for _ in 0..FILLER_ROWS {
            insert.execute(params_from_iter([&String::new()].into_iter().chain(&filler)))?;
        }
    }
    // SQLite's scores are better the smaller they are.
    let alone = (0..RANKING_FIELDS.len()).map(|at| {
        let weights = RANKING_FIELDS.iter().enumerate().map(|(i, (_, weight))| if i == at { *weight } else { 0.0 });
        format!("-bm25(entry, 0.0, {})", weights.map(|w| format!("{w:?}")).collect::<Vec<_>>().join(", "))
    });
    let whole = RANKING_FIELDS.map(|(_, weight)| format!("{weight:?}")).join(", ");
    let query = format!(
        "SELECT key, -bm25(entry, 0.0, {whole}) AS score, {} FROM entry WHERE entry MATCH ?1 ORDER BY score DESC, rowid",
        alone.collect::<Vec<_>>().join(", ")
    );
    let mut select = db.prepare(&query)?;
    let fits = select.query_map([question], |row| {
        let mut because = Vec::new();
        for (at, (name, _)) in RANKING_FIELDS.iter().enumerate() {
            let score: f64 = row.get(at + 2)?;
            if score > 0.0 {
                because.push((*name, score));
            }
        }
        because.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(RankingMatch { key: row.get(0)?, score: row.get(1)?, field_scores: because })
    })?;
    fits.collect()
}

/// The text as a full-text query: each word by itself and quoted, so that the caller's words are not parsed as query
/// syntax.
fn question(text: &str) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let word = word.to_lowercase();
        if word.is_empty() || word == FILLER || STOP.contains(&&*word) || words.contains(&word) {
            continue;
        }
        words.push(word);
        if words.len() == WORDS_MAX {
            break;
        }
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(key: &str, skills: &str, tags: &str, examples: &str, description: &str) -> RankingCandidate {
        let fields = [key, skills, tags, examples, description].map(str::to_owned);
        RankingCandidate { key: key.into(), fields }
    }

    fn agents() -> Vec<RankingCandidate> {
        vec![
            described("ledger", "Reconcile accounts", "accounting books", "Reconcile March", "Keeps the books"),
            described("travel", "Book trips", "travel flights hotels", "Book a flight to Oslo", "Plans journeys"),
        ]
    }

    fn order(text: &str) -> Vec<String> {
        rank(text, &agents()).unwrap().into_iter().map(|fit| fit.key).collect()
    }

    #[test]
    fn the_best_is_first_and_strangers_are_not_there() {
        assert_eq!(order("Please reconcile my accounts for April"), ["ledger"]);
        assert_eq!(order("I need flights and a hotel"), ["travel"]);
        assert_eq!(order("What is the weather?"), [""; 0]);
        assert_eq!(order("!!! ???"), [""; 0]);
        assert_eq!(order(FILLER), [""; 0]);
        // Both match the stem; one of them by its tags and in an example.
        assert_eq!(order("booking flights"), ["travel", "ledger"]);
    }

    #[test]
    fn a_score_says_where_it_comes_from() {
        let fit = rank("reconcile", &agents()).unwrap().remove(0);
        let because: Vec<_> = fit.field_scores.iter().map(|(field, _)| *field).collect();
        assert_eq!(because, ["skills", "examples"], "{fit:?}");
        assert!(fit.score > 1.0, "{fit:?}");
    }

    #[test]
    fn words_of_a_caller_are_words_and_nothing_else() {
        for text in ["tags: books", "\"books", "books OR (", "NEAR(books, 2)", "books*", "' -- ; DROP TABLE entry"] {
            rank(text, &agents()).unwrap();
        }
        assert_eq!(order("NOT books"), ["ledger", "travel"]);
    }
}
