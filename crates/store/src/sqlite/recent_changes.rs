//! The latest changes of status, in memory. A feed reads them; an index of all tasks by their change would cost every
//! commit a write.

use super::lock;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Changes that are remembered: half a megabyte.
const CHANGES_MAX: usize = 32_768;

/// A change of status: the number of its commit, and the row of its task.
pub(super) type ChangeEntry = (u64, i64);

#[derive(Debug, Default)]
pub(super) struct RecentChanges(Mutex<ChangeWindow>);

#[derive(Debug, Default)]
struct ChangeWindow {
    /// All changes behind this commit are here.
    complete_after: u64,
    /// By commit.
    entries: VecDeque<ChangeEntry>,
}

impl RecentChanges {
    /// Begins with a store whose last commit is this one.
    pub(super) fn start_after(&self, commit: u64) {
        *lock(&self.0) = ChangeWindow { complete_after: commit, entries: VecDeque::new() };
    }

    /// Adds the changes of a commit. Some of the tasks may not have changed after all.
    pub(super) fn add(&self, commit: u64, tasks: impl Iterator<Item = i64>) {
        let mut window = lock(&self.0);
        window.entries.extend(tasks.map(|task| (commit, task)));
        while window.entries.len() > CHANGES_MAX {
            if let Some((forgotten, _)) = window.entries.pop_front() {
                window.complete_after = forgotten;
            }
        }
    }

    /// At most `count` changes behind a place, in order; `None` if some of them were forgotten.
    pub(super) fn after(&self, place: ChangeEntry, count: usize) -> Option<Vec<ChangeEntry>> {
        let window = lock(&self.0);
        if place.0 < window.complete_after {
            return None;
        }
        let start = window.entries.partition_point(|entry| entry.0 < place.0);
        let mut found: Vec<ChangeEntry> = Vec::new();
        for entry in window.entries.iter().skip(start) {
            // A commit is read whole, because its tasks are not in order.
            if found.len() >= count && found.last().is_some_and(|last| last.0 != entry.0) {
                break;
            }
            found.push(*entry);
        }
        drop(window);
        found.sort_unstable();
        found.dedup();
        found.retain(|entry| *entry > place);
        found.truncate(count);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_in_order_until_they_are_forgotten() {
        let changes = RecentChanges::default();
        changes.start_after(10);
        assert_eq!(changes.after((9, i64::MAX), 5), None, "from before this process");
        assert_eq!(changes.after((10, i64::MAX), 5), Some(vec![]));
        changes.add(11, [7, 3, 7].into_iter());
        changes.add(12, [5].into_iter());
        assert_eq!(changes.after((10, i64::MAX), 5), Some(vec![(11, 3), (11, 7), (12, 5)]));
        assert_eq!(changes.after((11, 3), 1), Some(vec![(11, 7)]));
        assert_eq!(changes.after((12, i64::MAX), 5), Some(vec![]));
        changes.add(13, (0..).take(CHANGES_MAX - 1));
        assert_eq!(changes.after((10, i64::MAX), 5), None);
        assert_eq!(changes.after((11, i64::MAX), 1), Some(vec![(12, 5)]));
    }
}
