//! A shared limit on the bytes of incoming messages held in memory: answers of agents here, and requests of callers
//! where a server counts them against the same limit.
//!
//! Each message has its own bound where it is read, but a hundred unfinished messages have none together. Bytes count
//! as they arrive, whatever length was announced, and are given back when their reader drops the rest. A message that
//! finds no capacity fails alone. Small messages have a reserve, so a few large ones cannot block them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message of at most this many bytes may use the whole capacity.
const SMALL: usize = 64 << 10;
/// One part in this many is reserved for small messages.
const RESERVE: usize = 8;
/// One part in this many stays free of a single peer's messages.
const OTHERS: usize = 4;

/// A limit in bytes. Cheap to clone; clones share the limit.
#[derive(Debug, Clone)]
pub struct Capacity(Arc<Count>);

#[derive(Debug)]
struct Count {
    most: usize,
    used: AtomicUsize,
    /// The capacity that this one is a part of.
    parent: Option<Capacity>,
}

impl Default for Capacity {
    /// No limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Capacity {
    /// A capacity of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Count { most, used: AtomicUsize::new(0), parent: None }))
    }

    /// The part that one peer may use: most of the capacity, never all of it.
    #[must_use]
    pub fn part(&self) -> Self {
        self.part_of(self.0.most - self.0.most / OTHERS)
    }

    /// A part of at most `most` bytes. Its bytes count in the whole capacity as well.
    #[must_use]
    pub fn part_of(&self, most: usize) -> Self {
        Self(Arc::new(Count { most, used: AtomicUsize::new(0), parent: Some(self.clone()) }))
    }

    /// The bytes that one large message may use when no other message is held.
    pub const fn for_large(most: usize) -> usize {
        most - most / RESERVE
    }

    /// A new, empty share for one request or answer.
    pub fn share(&self) -> CapacityShare {
        CapacityShare { of: self.clone(), bytes: 0 }
    }
}

/// The bytes that one request or answer holds; given back when dropped.
#[derive(Debug)]
pub struct CapacityShare {
    of: Capacity,
    bytes: usize,
}

impl CapacityShare {
    /// Counts bytes that have arrived; false if they exceed the capacity. They count until this is dropped, in either
    /// case.
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let (mut room, mut at) = (true, Some(&self.of));
        while let Some(Capacity(count)) = at {
            let all = count.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            let most = if self.bytes <= SMALL { count.most } else { Capacity::for_large(count.most) };
            room &= all <= most;
            at = count.parent.as_ref();
        }
        room
    }

    /// Sets the number of bytes that are held now; false if they exceed the capacity.
    #[must_use]
    pub fn hold(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(0) => true,
            Some(more) => self.add(more),
            None => {
                self.give_back(self.bytes - bytes);
                true
            }
        }
    }

    /// The number of bytes this share holds.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let mut at = Some(&self.of);
        while let Some(Capacity(count)) = at {
            count.used.fetch_sub(bytes, Ordering::Relaxed);
            at = count.parent.as_ref();
        }
    }
}

impl Drop for CapacityShare {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_was_held_is_given_back() {
        let room = Capacity::new(MIB);
        let mut one = room.share();
        assert!(one.add(500 << 10));
        let mut two = room.share();
        assert!(!two.add(500 << 10), "there is no room for both");
        drop(two);
        assert!(one.hold(100 << 10) && one.hold(600 << 10) && one.hold(0));
        drop(one);
        assert_eq!(room.0.used.load(Ordering::Relaxed), 0);
        assert!(room.share().add(800 << 10));
    }

    #[test]
    fn large_ones_leave_room_for_small_ones() {
        let room = Capacity::new(MIB);
        let mut large = room.share();
        assert!(large.add(7 << 17));
        let mut next = room.share();
        assert!(!next.add(SMALL + 1), "no more large ones");
        drop(next);
        let mut small = room.share();
        assert!(small.add(1000) && small.add(1000));
        let mut more = room.share();
        assert!(more.add(SMALL) && !more.add(MIB), "one that grows is no longer small");
    }

    #[test]
    fn one_peer_leaves_room_for_the_others() {
        let room = Capacity::new(16 * MIB);
        let (greedy, other) = (room.part(), room.part());
        let mut shares: Vec<CapacityShare> = (0..20).map(|_| greedy.share()).collect();
        let taken = shares.iter_mut().filter_map(|share| share.add(MIB).then_some(())).count();
        assert_eq!(taken, 10, "seven eighths of three quarters");
        // The refused shares are dropped.
        shares.truncate(10);
        let mut large = other.share();
        assert!(large.add(3 * MIB));
        drop((shares, large));
        assert_eq!(room.0.used.load(Ordering::Relaxed), 0);
    }
}
