//! Why the signatures of a card do not suffice.

use url::Url;

/// Why a card is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UntrustedReason {
    /// The card has no signature.
    #[error("it is not signed")]
    Unsigned,
    /// The card is signed, and the signature proves nothing.
    #[error("its signature does not verify: {0}")]
    Unverifiable(SignatureFault),
    /// The signature is valid, but does not cover addresses or security requirements.
    #[error("its signature holds, but does not cover {0}")]
    Uncovered(&'static str),
}

/// Why a signature proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureFault {
    /// The signature is not a JWS, or exceeds a limit.
    #[error("malformed: {0}")]
    Malformed(String),
    /// The card has no canonical form, so there are no bytes to verify.
    #[error("the card has no canonical form: {0}")]
    NotCanonical(String),
    /// The algorithm is `none`, an HMAC, or unknown.
    #[error("algorithm {0:?} is not accepted")]
    AlgorithmRefused(String),
    /// The header has critical parameters that we do not understand.
    #[error("critical header parameters {0} are not understood")]
    Critical(String),
    /// The header has no `kid`, which A2A requires.
    #[error("the header names no key")]
    NoKeyId,
    /// No source has a key of this id.
    #[error("key {0:?} is not known")]
    UnknownKey(String),
    /// The key is of another kind than the algorithm, or is not for signatures.
    #[error("key {0:?} does not fit the algorithm")]
    KeyMismatch(String),
    /// The key is expired, revoked or not valid yet.
    #[error("key {0:?} is expired, revoked or not valid yet")]
    KeyExpired(String),
    /// The certificates in the header are not accepted.
    #[error("the certificate of key {key:?} is not accepted: {why}")]
    CertificateRefused {
        /// The id of the key.
        key: String,
        /// The reason of the verifier.
        why: String,
    },
    /// The `jku` points to a place that is not trusted.
    #[error("keys at {url:?} are not trusted: {why}")]
    KeyUrlRefused {
        /// The `jku` as the header has it.
        url: String,
        /// Why the URL is not trusted.
        why: &'static str,
    },
    /// The key set could not be fetched from the `jku`.
    #[error("keys at {url} could not be read: {why}")]
    KeysUnavailable {
        /// The URL of the key set.
        url: Url,
        /// The reason of the failure.
        why: String,
    },
    /// The header names an issuer that is not the card's host.
    #[error("issued by {issuer:?}, but the card comes from {host}")]
    ForeignIssuer {
        /// The `iss` as the header has it.
        issuer: String,
        /// The host of the card, or a description of its origin.
        host: String,
    },
    /// The key fits and the signature is wrong: the card or the signature was changed.
    #[error("the signature is wrong: the card is not what was signed")]
    BadSignature,
}

impl SignatureFault {
    /// The short name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NotCanonical(_) => "not_canonical",
            Self::AlgorithmRefused(_) => "alg_not_allowed",
            Self::Critical(_) => "unsupported_crit",
            Self::NoKeyId => "no_kid",
            Self::UnknownKey(_) => "unknown_key",
            Self::KeyMismatch(_) => "alg_key_mismatch",
            Self::KeyExpired(_) => "key_expired",
            Self::CertificateRefused { .. } => "x5c_refused",
            Self::KeyUrlRefused { .. } => "jku_refused",
            Self::KeysUnavailable { .. } => "keys_unavailable",
            Self::ForeignIssuer { .. } => "foreign_issuer",
            Self::BadSignature => "bad_signature",
        }
    }

    /// Whether this is evidence against the card, and not only missing evidence for it.
    pub fn is_bad_signature(&self) -> bool {
        matches!(self, Self::BadSignature)
    }
}
