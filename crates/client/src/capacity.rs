//! How much of what others send may be held at the same time, by all together: answers of agents here, and requests of
//! callers where a server counts them with the same.
//!
//! Each for itself is bounded where it is read; a hundred of them that are never finished are not. Bytes are counted as
//! they arrive, whatever was announced, and given back when nobody waits for the rest any more. Whoever finds no room fails
//! alone. What is small always finds some before what is large does, so a few large ones cannot keep out everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whoever holds no more than this may use all that there is, in bytes.
const SMALL: usize = 64 << 10;
/// The part that larger ones leave to the small ones.
const RESERVE: usize = 8;
/// The part that one peer leaves to all others.
const OTHERS: usize = 4;

/// Room for bytes. Cheap to clone, and clones share it.
#[derive(Debug, Clone)]
pub struct Capacity(Arc<Count>);

#[derive(Debug)]
struct Count {
    most: usize,
    used: AtomicUsize,
    /// What this is a part of.
    whole: Option<Capacity>,
}

impl Default for Capacity {
    /// As much as anybody wants.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Capacity {
    /// Room for so many bytes.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Count { most, used: AtomicUsize::new(0), whole: None }))
    }

    /// The part of it that one peer may use: most of it, and never all.
    #[must_use]
    pub fn part(&self) -> Self {
        let most = self.0.most - self.0.most / OTHERS;
        Self(Arc::new(Count { most, used: AtomicUsize::new(0), whole: Some(self.clone()) }))
    }

    /// What a large one finds, if it is alone.
    pub const fn for_large(most: usize) -> usize {
        most - most / RESERVE
    }

    /// A share of it, for one request or answer.
    pub fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }
}

/// What one request or answer holds, given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    of: Capacity,
    bytes: usize,
}

impl Share {
    /// Counts bytes that have come; whether there was room for them. They count until this is dropped, room or not.
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let (mut room, mut at) = (true, Some(&self.of));
        while let Some(Capacity(count)) = at {
            let all = count.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            let most = if self.bytes <= SMALL { count.most } else { Capacity::for_large(count.most) };
            room &= all <= most;
            at = count.whole.as_ref();
        }
        room
    }

    /// Counts as many bytes as are held now, whatever it was before; whether there was room for them.
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

    /// How many it counts for.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        let mut at = Some(&self.of);
        while let Some(Capacity(count)) = at {
            count.used.fetch_sub(bytes, Ordering::Relaxed);
            at = count.whole.as_ref();
        }
    }
}

impl Drop for Share {
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
        let mut shares: Vec<Share> = (0..20).map(|_| greedy.share()).collect();
        let taken = shares.iter_mut().filter_map(|share| share.add(MIB).then_some(())).count();
        assert_eq!(taken, 10, "seven eighths of three quarters");
        // Who was refused has gone.
        shares.truncate(10);
        let mut large = other.share();
        assert!(large.add(3 * MIB));
        drop((shares, large));
        assert_eq!(room.0.used.load(Ordering::Relaxed), 0);
    }
}
