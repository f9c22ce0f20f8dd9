//! Sets of small numbers, sixty-four to a word.

/// Some of the numbers below a bound that all sets of one graph share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set, of `len` numbers.
    pub(super) fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(super) fn set(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// The numbers in both sets.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// The numbers in this set and not in the other.
    pub(super) fn without(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & !b).collect())
    }

    /// Adds the numbers of the other set; true if that changed this one.
    pub(super) fn add(&mut self, other: &Self) -> bool {
        self.change(other, |a, b| a | b)
    }

    /// Removes the numbers that are not in the other set; true if that changed this one.
    pub(super) fn keep(&mut self, other: &Self) -> bool {
        self.change(other, |a, b| a & b)
    }

    fn change(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let new = with(*a, *b);
            changed |= new != *a;
            *a = new;
        }
        changed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(i, word)| (0..64).filter(move |b| word >> b & 1 == 1).map(move |b| i * 64 + b))
    }
}
