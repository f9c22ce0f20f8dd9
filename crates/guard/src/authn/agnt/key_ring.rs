//! The signing keys of a network, including rotation.
//!
//! Two sides never rotate a key at the same moment. So one key signs, and besides it the ring accepts keys that will
//! sign next and, until a deadline, keys that signed before. The overlap concerns keys only; it does not extend the age
//! of a payload.

pub use sabir_proto::digest::ENVELOPE_KEY_BYTES_MIN as KEY_BYTES_MIN;

use aws_lc_rs::{hkdf, hmac};
use sabir_proto::{Secret, Timestamp, digest};
use std::fmt;
use std::time::Duration;

/// How long a key is accepted after its rotation by default: as long as a payload under it can be fresh.
pub const OVERLAP: Duration = Duration::from_secs(360);
/// The longest overlap, for slow roll-outs.
pub const OVERLAP_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of accepted keys; each costs one HMAC per payload.
pub const KEYS_MAX: usize = 8;
const INFO: &[u8] = b"agnt-a2a-signing-v1";

/// How a configured text becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyDerivation {
    /// The key is the UTF-8 bytes of the text.
    #[default]
    Raw,
    /// The key is the decoded hex text.
    Hex,
    /// The key is HKDF-SHA-256 over the UTF-8 bytes of the text.
    Hkdf,
}

/// The position of a key in the rotation; used in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySlot {
    /// Accepted already; does not sign yet.
    Next,
    /// The key that signs.
    Current,
    /// Accepted until its deadline; does not sign any more.
    Previous,
}

impl KeySlot {
    /// The name of the slot, as metrics show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Current => "current",
            Self::Previous => "previous",
        }
    }
}

/// Why a key ring cannot be built. The message never repeats the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingFault {
    /// Shorter than [`KEY_BYTES_MIN`].
    #[error("a signing key needs at least {KEY_BYTES_MIN} bytes")]
    TooShort,
    /// The text is not hex.
    #[error("the signing key is not hex")]
    NotHex,
    /// More than [`KEYS_MAX`] keys.
    #[error("more than {KEYS_MAX} signing keys at a time")]
    TooMany,
    /// The overlap is longer than [`OVERLAP_MAX`].
    #[error("a key may be accepted for a day after it was replaced, and no longer")]
    OverlapTooLong,
}

/// The accepted keys of a network and the one that signs.
pub struct KeyRing {
    current: hmac::Key,
    next: Vec<hmac::Key>,
    previous: Vec<(hmac::Key, Timestamp)>,
}

impl KeyRing {
    /// A ring with only the key that signs.
    pub fn new(current: &Secret, derivation: KeyDerivation) -> Result<Self, KeyRingFault> {
        Ok(Self { current: key(current, derivation)?, next: Vec::new(), previous: Vec::new() })
    }

    /// Adds a key that is accepted and does not sign yet.
    pub fn with_next(mut self, next: &Secret, derivation: KeyDerivation) -> Result<Self, KeyRingFault> {
        self.check_room()?;
        self.next.push(key(next, derivation)?);
        Ok(self)
    }

    /// Adds a key that was replaced at `rotated_at` and is accepted for `overlap` after that.
    pub fn with_previous(
        mut self,
        previous: &Secret,
        derivation: KeyDerivation,
        rotated_at: Timestamp,
        overlap: Duration,
    ) -> Result<Self, KeyRingFault> {
        self.check_room()?;
        if overlap > OVERLAP_MAX {
            return Err(KeyRingFault::OverlapTooLong);
        }
        let overlap = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let not_after = Timestamp::from_millis(rotated_at.millis().saturating_add(overlap));
        self.previous.push((key(previous, derivation)?, not_after));
        Ok(self)
    }

    /// The MAC that our own payloads carry, over [`super::signed_text`].
    pub fn sign(&self, signed: &[u8]) -> String {
        digest::hex(hmac::sign(&self.current, signed).as_ref())
    }

    /// The key that made a MAC; for callers that verify something other than an envelope sent to us.
    pub fn key_slot_of(&self, signed: &[u8], mac: &str, now: Timestamp) -> Option<KeySlot> {
        self.verify(signed, mac, now)
    }

    /// The key that made a MAC. All live keys are tried, so that the time taken does not tell which one it was.
    pub(super) fn verify(&self, signed: &[u8], mac: &str, now: Timestamp) -> Option<KeySlot> {
        // The peer compares hex texts byte by byte, so upper-case hex is invalid.
        let mac = super::super::decode_hex(mac)?;
        let live = |(_, not_after): &&(hmac::Key, Timestamp)| now <= *not_after;
        let previous = self.previous.iter().filter(live).map(|(key, _)| (key, KeySlot::Previous));
        let next = self.next.iter().map(|key| (key, KeySlot::Next));
        let all = previous.chain(next).chain([(&self.current, KeySlot::Current)]);
        all.fold(None, |found, (key, slot)| match hmac::verify(key, signed, &mac) {
            Ok(()) => Some(slot),
            Err(_) => found,
        })
    }

    fn check_room(&self) -> Result<(), KeyRingFault> {
        if 1 + self.next.len() + self.previous.len() < KEYS_MAX { Ok(()) } else { Err(KeyRingFault::TooMany) }
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, previous) = (self.next.len(), self.previous.len());
        out.debug_struct("Ring").field("next", &next).field("previous", &previous).finish_non_exhaustive()
    }
}

fn key(secret: &Secret, derivation: KeyDerivation) -> Result<hmac::Key, KeyRingFault> {
    let bytes = match derivation {
        KeyDerivation::Raw | KeyDerivation::Hkdf => secret.expose().as_bytes().to_vec(),
        KeyDerivation::Hex => {
            super::super::decode_hex(&secret.expose().to_ascii_lowercase()).ok_or(KeyRingFault::NotHex)?
        }
    };
    if bytes.len() < KEY_BYTES_MIN {
        return Err(KeyRingFault::TooShort);
    }
    if derivation != KeyDerivation::Hkdf {
        return Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
    }
    let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&bytes);
    let mut derived_bytes = [0; 32];
    let filled = derived.expand(&[INFO], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut derived_bytes));
    // Only lengths can be wrong here, and they are fixed.
    filled.map_err(|_| KeyRingFault::TooShort)?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &derived_bytes))
}
