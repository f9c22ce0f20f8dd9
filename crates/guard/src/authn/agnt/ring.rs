//! The keys of a network, while they are being changed.
//!
//! Two sides never change a key at the same moment. So there is one key that signs, there are keys that are accepted
//! already, and keys that are accepted still, until a moment. The overlap is about keys; it never makes a payload fresh.

use aws_lc_rs::{hkdf, hmac};
use sabir_proto::{Secret, Timestamp, digest};
use std::fmt;
use std::time::Duration;

/// The shortest key, in bytes.
pub const KEY_BYTES_MIN: usize = 32;
/// How long a key is accepted after it was replaced: as long as a payload under it could be fresh.
pub const OVERLAP: Duration = Duration::from_secs(360);
/// The longest overlap, for slow roll-outs.
pub const OVERLAP_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How many keys may be accepted at a time; each costs an HMAC for every payload.
pub const KEYS_MAX: usize = 8;
const INFO: &[u8] = b"agnt-a2a-signing-v1";

/// How a configured value becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Derivation {
    /// Its UTF-8 bytes.
    #[default]
    Raw,
    /// The bytes it spells in hex.
    Hex,
    /// HKDF-SHA-256 over its UTF-8 bytes.
    Hkdf,
}

/// Which key it was. For our metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Not yet the one that signs.
    Next,
    /// The one that signs.
    Current,
    /// No longer the one that signs.
    Previous,
}

impl Slot {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Current => "current",
            Self::Previous => "previous",
        }
    }
}

/// Why there is no key. The value is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// Too short to be safe.
    #[error("a signing key needs at least {KEY_BYTES_MIN} bytes")]
    TooShort,
    /// Not hex.
    #[error("the signing key is not hex")]
    NotHex,
    /// More than [`KEYS_MAX`].
    #[error("more than {KEYS_MAX} signing keys at a time")]
    TooMany,
    /// Longer than [`OVERLAP_MAX`].
    #[error("a key may be accepted for a day after it was replaced, and no longer")]
    OverlapTooLong,
}

/// The keys.
pub struct Ring {
    current: hmac::Key,
    next: Vec<hmac::Key>,
    previous: Vec<(hmac::Key, Timestamp)>,
}

impl Ring {
    /// A ring with the key that signs.
    pub fn new(current: &Secret, derivation: Derivation) -> Result<Self, RingFault> {
        Ok(Self { current: key(current, derivation)?, next: Vec::new(), previous: Vec::new() })
    }

    /// Adds a key that is accepted and does not sign yet.
    pub fn with_next(mut self, next: &Secret, derivation: Derivation) -> Result<Self, RingFault> {
        self.check_room()?;
        self.next.push(key(next, derivation)?);
        Ok(self)
    }

    /// Adds a key that was replaced at that moment, and is accepted for the overlap after it.
    pub fn with_previous(
        mut self,
        previous: &Secret,
        derivation: Derivation,
        rotated_at: Timestamp,
        overlap: Duration,
    ) -> Result<Self, RingFault> {
        self.check_room()?;
        if overlap > OVERLAP_MAX {
            return Err(RingFault::OverlapTooLong);
        }
        let overlap = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let not_after = Timestamp::from_millis(rotated_at.millis().saturating_add(overlap));
        self.previous.push((key(previous, derivation)?, not_after));
        Ok(self)
    }

    /// The MAC that our own payloads carry, over [`digest::agnt_signed`].
    pub fn sign(&self, signed: &[u8]) -> String {
        digest::hex(hmac::sign(&self.current, signed).as_ref())
    }

    /// Which key made a MAC, for whoever reads what was signed elsewhere than in an envelope to us.
    pub fn slot_of(&self, signed: &[u8], mac: &str, now: Timestamp) -> Option<Slot> {
        self.verify(signed, mac, now)
    }

    /// Which key made a MAC. All live keys are computed, so that the time taken does not tell which one it was.
    pub(super) fn verify(&self, signed: &[u8], mac: &str, now: Timestamp) -> Option<Slot> {
        // Its own text is compared by the peer, so upper-case hex is as wrong as any other.
        let mac = super::super::unhex(mac)?;
        let live = |(_, not_after): &&(hmac::Key, Timestamp)| now <= *not_after;
        let previous = self.previous.iter().filter(live).map(|(key, _)| (key, Slot::Previous));
        let next = self.next.iter().map(|key| (key, Slot::Next));
        let all = previous.chain(next).chain([(&self.current, Slot::Current)]);
        all.fold(None, |found, (key, slot)| match hmac::verify(key, signed, &mac) {
            Ok(()) => Some(slot),
            Err(_) => found,
        })
    }

    fn check_room(&self) -> Result<(), RingFault> {
        if 1 + self.next.len() + self.previous.len() < KEYS_MAX { Ok(()) } else { Err(RingFault::TooMany) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, previous) = (self.next.len(), self.previous.len());
        out.debug_struct("Ring").field("next", &next).field("previous", &previous).finish_non_exhaustive()
    }
}

fn key(secret: &Secret, derivation: Derivation) -> Result<hmac::Key, RingFault> {
    let bytes = match derivation {
        Derivation::Raw | Derivation::Hkdf => secret.expose().as_bytes().to_vec(),
        Derivation::Hex => super::super::unhex(&secret.expose().to_ascii_lowercase()).ok_or(RingFault::NotHex)?,
    };
    if bytes.len() < KEY_BYTES_MIN {
        return Err(RingFault::TooShort);
    }
    if derivation != Derivation::Hkdf {
        return Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
    }
    let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&bytes);
    let mut derived_bytes = [0; 32];
    let filled = derived.expand(&[INFO], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut derived_bytes));
    // Only lengths can be wrong, and they are fixed.
    filled.map_err(|_| RingFault::TooShort)?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &derived_bytes))
}
