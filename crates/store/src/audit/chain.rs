//! The hash chain: how an entry follows from the one before, and how tampering is classified where it does not.

use super::{AuditEntry, AuditRecord, ChainBreak, ChainPosition, ChainVerification, Tampering};
use crate::Hash;
use sabir_proto::canon;

/// A stored row of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainRow {
    /// The number of the row; the entry repeats it.
    pub(crate) seq: u64,
    /// The canonical entry.
    pub(crate) canonical: String,
    /// The hash of the entry and of the one before it.
    pub(crate) hash: Hash,
}

/// The row of a record, appended at this end.
pub(crate) fn next_row(end: ChainPosition, record: &AuditRecord) -> ChainRow {
    let seq = end.seq + 1;
    let canonical = canon::jcs(&record.to_entry(seq)).expect("text and whole numbers have a canonical form");
    let canonical = String::from_utf8(canonical).expect("JSON is UTF-8");
    ChainRow { seq, hash: chain_hash(&end.hash, &canonical), canonical }
}

/// The entry of a row; `None` where this program did not write the row.
pub(crate) fn parse_entry(row: &ChainRow) -> Option<AuditEntry> {
    serde_json::from_str(&row.canonical).ok()
}

fn chain_hash(before: &Hash, canonical: &str) -> Hash {
    Hash::of(&[before.as_bytes(), canonical.as_bytes()])
}

/// Checks a chain row by row.
#[derive(Debug, Default)]
pub(crate) struct ChainVerifier {
    /// The number of good rows, and the hash of the last.
    good: u64,
    hash: Hash,
    known: Option<ChainPosition>,
    /// A row that does not follow; the row after it shows why.
    suspect: Option<ChainRow>,
    broken: Option<ChainBreak>,
}

impl ChainVerifier {
    pub(crate) fn new(known: Option<ChainPosition>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Checks the next row; false once a break is found.
    pub(crate) fn add_row(&mut self, row: ChainRow) -> bool {
        if self.broken.is_none() {
            match self.suspect.take() {
                // The chain goes on without the suspect row, so that row was inserted.
                Some(suspect) if chain_hash(&self.hash, &row.canonical) == row.hash => {
                    self.set_break(suspect.seq, Tampering::Inserted);
                }
                Some(suspect) => self.classify(&suspect),
                None => self.check_row(row),
            }
        }
        self.broken.is_none()
    }

    fn check_row(&mut self, row: ChainRow) {
        let due = self.good + 1;
        if row.seq != due {
            return self.set_break(due, Tampering::Removed);
        }
        if chain_hash(&self.hash, &row.canonical) == row.hash && parse_entry(&row).is_some_and(|e| e.seq == due) {
            (self.good, self.hash) = (due, row.hash);
            if self.known.is_some_and(|known| known.seq == due && known.hash != row.hash) {
                self.set_break(due, Tampering::Edited);
            }
            return;
        }
        self.suspect = Some(row);
    }

    /// Classifies a bad row. A row that was moved to close a gap, or to make one, still holds its old number.
    fn classify(&mut self, suspect: &ChainRow) {
        match parse_entry(suspect).map(|e| e.seq) {
            Some(said) if said > suspect.seq => self.set_break(suspect.seq, Tampering::Removed),
            Some(said) if said + 1 == suspect.seq => self.set_break(said, Tampering::Inserted),
            Some(said) if said < suspect.seq => self.set_break(suspect.seq, Tampering::Inserted),
            _ => self.set_break(suspect.seq, Tampering::Edited),
        }
    }

    fn set_break(&mut self, seq: u64, tampering: Tampering) {
        self.broken = Some(ChainBreak { seq, tampering });
    }

    /// The result; `end` is the end of the chain as the writer stored it.
    pub(crate) fn finish(mut self, end: ChainPosition) -> ChainVerification {
        if let Some(suspect) = self.suspect.take() {
            self.classify(&suspect);
            // The stored end does not cover this row.
            let is_beyond = |found: &ChainBreak| found.tampering == Tampering::Edited && found.seq > end.seq;
            if self.broken.as_ref().is_some_and(is_beyond) {
                self.set_break(suspect.seq, Tampering::Inserted);
            }
        }
        let missing = [Some(end), self.known].into_iter().flatten().any(|k| k.seq > self.good);
        if self.broken.is_none() {
            if missing {
                self.set_break(self.good + 1, Tampering::Removed);
            } else if end.seq < self.good {
                self.set_break(end.seq + 1, Tampering::Inserted);
            } else if end.hash != self.hash {
                self.set_break(self.good, Tampering::Edited);
            }
        }
        ChainVerification { entries: self.good, hash: self.hash, first_break: self.broken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Caller, Timestamp};

    fn record(n: u64) -> AuditRecord {
        let time = Timestamp::from_millis(i64::try_from(n).unwrap());
        AuditRecord::refusal(time, Caller::anonymous(), "none", "SendMessage", "rate")
    }

    fn chain(length: u64) -> Vec<ChainRow> {
        let mut rows: Vec<ChainRow> = Vec::new();
        for n in 0..length {
            rows.push(next_row(end(&rows), &record(n)));
        }
        rows
    }

    fn end(rows: &[ChainRow]) -> ChainPosition {
        rows.last().map_or(ChainPosition { seq: 0, hash: Hash::default() }, |row| ChainPosition {
            seq: row.seq,
            hash: row.hash,
        })
    }

    fn check(rows: &[ChainRow], end: ChainPosition, known: Option<ChainPosition>) -> ChainVerification {
        let mut checker = ChainVerifier::new(known);
        for row in rows {
            if !checker.add_row(row.clone()) {
                break;
            }
        }
        checker.finish(end)
    }

    #[track_caller]
    fn assert_break(rows: &[ChainRow], expected: Option<(u64, Tampering)>) {
        let found = check(rows, end(&chain(6)), None).first_break;
        assert_eq!(found, expected.map(|(seq, tampering)| ChainBreak { seq, tampering }));
    }

    /// Replaces text in a row and leaves its hash as it is.
    fn edit_row(row: &mut ChainRow, from: &str, to: &str) {
        assert!(row.canonical.contains(from));
        row.canonical = row.canonical.replace(from, to);
    }

    #[test]
    fn the_form_is_fixed() {
        let rows = chain(2);
        let text = r#"{"caller":"anonymous","count":1,"operation":"SendMessage","outcome":"refused","reason":"rate","scheme":"none","seq":1,"time":"1970-01-01T00:00:00.000Z"}"#;
        assert_eq!(rows[0].canonical, text);
        assert_eq!(rows[0].hash, Hash::of(&[&[0; 32], text.as_bytes()]));
        assert_eq!(rows[1].hash, Hash::of(&[rows[0].hash.as_bytes(), rows[1].canonical.as_bytes()]));
    }

    #[test]
    fn a_whole_chain_is_whole() {
        assert_break(&chain(6), None);
        let nothing = check(&[], end(&[]), None);
        assert_eq!(nothing, ChainVerification { entries: 0, hash: Hash::default(), first_break: None });
    }

    #[test]
    fn edits_are_found() {
        for at in 0..6 {
            let seq = u64::try_from(at).unwrap() + 1;
            let mut rows = chain(6);
            edit_row(&mut rows[at], "rate", "none");
            assert_break(&rows, Some((seq, Tampering::Edited)));
            let mut rows = chain(6);
            rows[at].hash = Hash::of(&[b"x"]);
            assert_break(&rows, Some((seq, Tampering::Edited)));
            let mut rows = chain(6);
            rows[at].canonical = "not ours".into();
            assert_break(&rows, Some((seq, Tampering::Edited)));
            // With its own hash made to fit, the next row no longer fits; for the last row, the stored end does not.
            let mut rows = chain(6);
            edit_row(&mut rows[at], "rate", "none");
            let before = if at == 0 { Hash::default() } else { rows[at - 1].hash };
            rows[at].hash = chain_hash(&before, &rows[at].canonical);
            assert_break(&rows, Some(((seq + 1).min(6), Tampering::Edited)));
        }
    }

    #[test]
    fn removals_are_found() {
        for at in 0..6 {
            let seq = u64::try_from(at).unwrap() + 1;
            let mut rows = chain(6);
            rows.remove(at);
            assert_break(&rows, Some((seq, Tampering::Removed)));
            // Closing the gap does not help.
            rows.iter_mut().zip(1..).for_each(|(row, seq)| row.seq = seq);
            assert_break(&rows, Some((seq, Tampering::Removed)));
        }
        assert_break(&[], Some((1, Tampering::Removed)));
    }

    #[test]
    fn insertions_are_found() {
        for at in 0..6 {
            let seq = u64::try_from(at).unwrap() + 1;
            for fits in [false, true] {
                let mut rows = chain(6);
                let mut new = next_row(end(&rows[..at]), &record(99));
                if !fits {
                    new.hash = Hash::of(&[b"x"]);
                }
                rows.insert(at, new);
                rows.iter_mut().zip(1..).for_each(|(row, seq)| row.seq = seq);
                assert_break(&rows, Some((seq, Tampering::Inserted)));
            }
        }
        // At the end: the row follows, but the stored end does not cover it.
        let mut rows = chain(6);
        rows.push(next_row(end(&rows), &record(99)));
        assert_break(&rows, Some((7, Tampering::Inserted)));
    }

    #[test]
    fn a_chain_made_anew_does_not_pass_for_the_one_that_was_known() {
        let (rows, known) = (chain(6), end(&chain(4)));
        assert_eq!(check(&rows, end(&rows), Some(known)).first_break, None);
        let cut = &rows[..3];
        assert_eq!(check(cut, end(cut), None).first_break, None, "nobody who sees only this can tell");
        let missing = Some(ChainBreak { seq: 4, tampering: Tampering::Removed });
        assert_eq!(check(cut, end(cut), Some(known)).first_break, missing);
        let anew = ChainPosition { hash: Hash::of(&[b"x"]), ..known };
        let edited = Some(ChainBreak { seq: 4, tampering: Tampering::Edited });
        assert_eq!(check(&rows, end(&rows), Some(anew)).first_break, edited);
    }
}
