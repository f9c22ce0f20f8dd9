//! A seeded random number generator: the same seed gives the same run.

/// A small random number generator (splitmix64). No secret depends on it, but seeds do, so it is our own and does not
/// change with the version of a dependency.
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// The generator of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another generator, independent of what is drawn from this one afterwards.
    pub const fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// An index below `len`.
    pub fn below(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.bits() % len).unwrap_or(0)
    }

    /// True once in so many times; never for zero.
    pub const fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.bits().is_multiple_of(times)
    }

    /// Draws one of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A random UUID, version 4.
    pub fn uuid(&mut self) -> String {
        let (a, b) = (self.bits(), self.bits());
        let third = 0x4000 | (a & 0xfff);
        let fourth = 0x8000 | (b >> 48 & 0x3fff);
        format!("{:08x}-{:04x}-{third:04x}-{fourth:04x}-{:012x}", a >> 32, a >> 16 & 0xffff, b & 0xffff_ffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_a_fork_goes_its_own_way() {
        let draw = |mut chance: SeededRng| -> Vec<u64> { (0..8).map(|_| chance.bits()).collect() };
        assert_eq!(draw(SeededRng::new(7)), draw(SeededRng::new(7)));
        let mut parent = SeededRng::new(7);
        assert_ne!(draw(parent.fork()), draw(parent));
    }

    #[test]
    fn a_uuid_is_one() {
        let id = sabir_proto::MessageId::parse(&SeededRng::new(1).uuid()).unwrap();
        assert!(id.is_uuid_or_ulid(), "{id}");
    }
}
