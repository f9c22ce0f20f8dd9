//! Chooses one of several replicas of an upstream for a conversation: by weight, with a share for canaries.
//!
//! The choice depends on the conversation alone, so that its tasks reach the replica where the earlier ones are, and on
//! which replicas can be called, so that no conversation is lost to one that is down. This module stores nothing.

/// A replica to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaCandidate {
    /// The share of conversations, compared with the other weights; ignored for a canary.
    pub weight: u32,
    /// The percentage of all conversations, for a version on trial.
    pub canary: Option<u8>,
    /// Whether the replica can be called now.
    pub usable: bool,
}

/// Chooses by a number that is as good as random; `None` if no candidate is usable.
pub fn choose_candidate(candidates: &[ReplicaCandidate], chance: u64) -> Option<usize> {
    // One number serves two draws: the percentage for canaries, and the share of the weights.
    let (percent, share) = (chance % 100, chance / 100);
    let mut until = 0;
    for (at, candidate) in candidates.iter().enumerate() {
        let Some(canary) = candidate.canary else { continue };
        until += u64::from(canary);
        if percent < until {
            // The share of a canary that cannot be called goes to the other replicas.
            if candidate.usable {
                return Some(at);
            }
            break;
        }
    }
    let usable = |canary: bool| {
        let all = candidates.iter().enumerate();
        all.filter(move |(_, one)| one.usable && one.canary.is_some() == canary).map(|(at, one)| (at, one.weight))
    };
    let total: u64 = usable(false).map(|(_, weight)| u64::from(weight)).sum();
    if total == 0 {
        // Better a version on trial, or a replica of weight zero, than none.
        return usable(false).chain(usable(true)).map(|(at, _)| at).next();
    }
    let mut left = share % total;
    for (at, weight) in usable(false) {
        match left.checked_sub(u64::from(weight)) {
            Some(rest) => left = rest,
            None => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(weight: u32, canary: Option<u8>, usable: bool) -> ReplicaCandidate {
        ReplicaCandidate { weight, canary, usable }
    }

    fn shares(candidates: &[ReplicaCandidate]) -> Vec<u32> {
        let mut shares = vec![0; candidates.len()];
        for chance in 0..100_000 {
            if let Some(at) = choose_candidate(candidates, chance) {
                shares[at] += 1;
            }
        }
        shares
    }

    #[test]
    fn weights_and_canaries_get_their_share() {
        let all = [place(3, None, true), place(1, None, true), place(1, Some(10), true)];
        assert_eq!(shares(&all), [67_500, 22_500, 10_000]);
        // The share of a replica that is down goes to the others.
        let down = [place(3, None, false), place(1, None, true), place(1, Some(10), true)];
        assert_eq!(shares(&down), [0, 90_000, 10_000]);
        let no_canary = [place(3, None, true), place(1, None, true), place(1, Some(10), false)];
        assert_eq!(shares(&no_canary), [75_000, 25_000, 0]);
        let canary_alone = [place(3, None, false), place(1, None, false), place(1, Some(10), true)];
        assert_eq!(shares(&canary_alone), [0, 0, 100_000]);
        assert_eq!(shares(&[place(1, None, false)]), [0]);
        assert_eq!(
            choose_candidate(&[place(0, None, true)], 7),
            Some(0),
            "a weight of nothing is still better than nobody"
        );
        assert_eq!(choose_candidate(&[], 7), None);
    }
}
