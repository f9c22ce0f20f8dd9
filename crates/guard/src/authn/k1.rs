//! Requests signed by an XPR account: three headers, and a signature over account, time and body.
//!
//! The request contains no public key. The key is recovered from the signature, and it must be among the active keys of
//! the account on the chain. [`sabir_proto::digest::k1_request_digest`] defines the signed bytes.
//!
//! We accept everything that the network's own client sends, and are stricter than its server about what no honest
//! client does: only secp256k1, only low s, only recovery bytes 31 to 34, only legal account names, and the body hashed
//! as it is, without replacing invalid UTF-8 first.
//!
//! A signature is not an id: the holder of a key can make many for one request. [`SignedRequest::digest`] identifies a
//! replay.

use super::chain::{AccountAuthority, ChainClient, ChainFault};
use super::{Principal, Scheme, leading_integer};
use crate::fetch::Fetch;
use crate::unix_seconds;
use k256::ecdsa::{RecoveryId, Signature as Ecdsa, VerifyingKey};
use sabir_proto::k1::{Curve, K1Fault, PublicKey, RecoverableSignature, is_account_name};
use sabir_proto::{Timestamp, digest};

/// How far the request time may differ from ours, in seconds, in either direction; both ends are accepted.
pub const WINDOW: i64 = 300;

/// The values of the three headers; `None` for a header that is absent.
#[derive(Debug, Clone, Copy, Default)]
pub struct XprHeaders<'a> {
    /// The `X-XPR-Account` header.
    pub account: Option<&'a str>,
    /// The `X-XPR-Timestamp` header: Unix seconds.
    pub timestamp: Option<&'a str>,
    /// The `X-XPR-Signature` header.
    pub signature: Option<&'a str>,
}

/// Whether one key of an account is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightRule {
    /// Any active key may sign for the account, as at the network's own server.
    #[default]
    AnyKey,
    /// The weight of the key alone must reach the threshold of the active permission: one key of a 2-of-2 does not.
    Threshold,
}

/// A request with the key recovered from its signature. The holder of that key signed it; the account is not checked
/// yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// The account that the request claims.
    pub account: String,
    /// The key that made the signature.
    pub key: PublicKey,
    /// The time that was signed, in Unix seconds.
    pub timestamp: i64,
    /// The signed digest. It is the same for every signature over the same request.
    pub digest: [u8; 32],
}

/// An account that is proven to have signed the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenAccount {
    /// The request that the account signed.
    pub signed: SignedRequest,
}

impl ProvenAccount {
    /// The account as a principal.
    pub fn principal(&self) -> Principal {
        Principal::new(Scheme::Xpr, self.signed.account.as_str())
    }

    /// The last moment at which the same request would be accepted; a replay must be remembered until then.
    pub fn accepted_until(&self) -> Timestamp {
        Timestamp::from_millis((self.signed.timestamp + WINDOW + 1) * 1000)
    }
}

/// Why a request is not accepted as from the account it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignedRequestFault {
    /// A header is missing or empty.
    #[error("account, timestamp and signature headers are all needed")]
    Incomplete,
    /// No account can have this name.
    #[error("not an account name")]
    AccountName,
    /// The timestamp is not a number.
    #[error("the timestamp is not a Unix timestamp")]
    Timestamp,
    /// Outside of [`WINDOW`].
    #[error("the timestamp is {0} s away from our time")]
    Window(i64),
    /// Not a signature, or no key can be recovered from it.
    #[error("the signature cannot be read: {0}")]
    Unreadable(&'static str),
    /// A signature on another curve.
    #[error("only K1 signatures are accepted")]
    Curve,
    /// A third party can derive this from a valid signature without the key.
    #[error("the signature is not in its canonical form")]
    Malleable,
    /// The recovered key is not a key of the account.
    #[error("the key is none of the account's active keys")]
    WrongKey,
    /// The key belongs to the account, but its weight is too low.
    #[error("the key has weight {weight}, and the account asks for {threshold}")]
    TooLight {
        /// The weight of the key.
        weight: u64,
        /// The threshold of the permission.
        threshold: u64,
    },
    /// The account has no keys to compare with.
    #[error("the account has no active keys")]
    NoKeys,
    /// The chain is unreachable, or it knows no such account.
    #[error(transparent)]
    Chain(#[from] ChainFault),
}

impl SignedRequestFault {
    /// A short, stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Incomplete => "xpr_incomplete",
            Self::AccountName => "xpr_account_name",
            Self::Timestamp => "xpr_timestamp",
            Self::Window(_) => "xpr_window",
            Self::Unreadable(_) => "xpr_unreadable",
            Self::Curve => "xpr_curve",
            Self::Malleable => "xpr_malleable",
            Self::WrongKey => "xpr_wrong_key",
            Self::TooLight { .. } => "xpr_too_light",
            Self::NoKeys => "xpr_no_keys",
            Self::Chain(ChainFault::Absent) => "xpr_unknown_account",
            Self::Chain(_) => "chain_unavailable",
        }
    }
}

/// Verifies that the request is from the account it names. The chain is queried last, so that an invalid request costs
/// no lookup.
pub async fn verify<F: Fetch>(
    headers: XprHeaders<'_>,
    body: &[u8],
    weight: WeightRule,
    now: Timestamp,
    chain: &ChainClient<F>,
) -> Result<ProvenAccount, SignedRequestFault> {
    let signed = recover(headers, body, now)?;
    let authority = chain.authority(&signed.account, now).await?;
    authorize(signed, &authority, weight)
}

/// All checks that need no chain lookup, in the order of the network's own server.
pub fn recover(headers: XprHeaders<'_>, body: &[u8], now: Timestamp) -> Result<SignedRequest, SignedRequestFault> {
    let given = |header: Option<&str>| header.filter(|text| !text.is_empty()).map(str::to_owned);
    let (Some(account), Some(timestamp), Some(signature)) =
        (given(headers.account), given(headers.timestamp), given(headers.signature))
    else {
        return Err(SignedRequestFault::Incomplete);
    };
    if !is_account_name(&account) {
        return Err(SignedRequestFault::AccountName);
    }
    // The digest contains the number, not its text.
    let timestamp = leading_integer(&timestamp).ok_or(SignedRequestFault::Timestamp)?;
    let distance = timestamp.saturating_sub(unix_seconds(now)).saturating_abs();
    if distance > WINDOW {
        return Err(SignedRequestFault::Window(distance));
    }
    let signature = RecoverableSignature::parse(&signature).map_err(|fault| match fault {
        K1Fault::WebAuthn => SignedRequestFault::Curve,
        _ => SignedRequestFault::Unreadable("not a signature"),
    })?;
    let digest = digest::k1_request_digest(&account, timestamp, body);
    let key = recover_key(&signature, &digest)?;
    Ok(SignedRequest { account, key, timestamp, digest })
}

/// Checks whether the recovered key may sign for the account.
pub fn authorize(
    signed: SignedRequest,
    authority: &AccountAuthority,
    weight: WeightRule,
) -> Result<ProvenAccount, SignedRequestFault> {
    if authority.keys.is_empty() {
        return Err(SignedRequestFault::NoKeys);
    }
    let matching = || authority.keys.iter().filter(|(key, _)| *key == signed.key);
    let heaviest = matching().map(|(_, weight)| *weight).max().ok_or(SignedRequestFault::WrongKey)?;
    if weight == WeightRule::Threshold && heaviest < authority.threshold {
        return Err(SignedRequestFault::TooLight { weight: heaviest, threshold: authority.threshold });
    }
    Ok(ProvenAccount { signed })
}

fn recover_key(signature: &RecoverableSignature, digest: &[u8; 32]) -> Result<PublicKey, SignedRequestFault> {
    if signature.curve != Curve::K1 {
        return Err(SignedRequestFault::Curve);
    }
    // 27 to 30 mean the same for uncompressed keys, and the peer's arithmetic accepts every other byte in some way.
    let id = signature.recovery.checked_sub(31).and_then(RecoveryId::from_byte).ok_or(SignedRequestFault::Malleable)?;
    // Refuses r and s that are zero or beyond the order of the curve.
    let ecdsa = Ecdsa::from_slice(&signature.rs).map_err(|_| SignedRequestFault::Unreadable("r or s out of range"))?;
    // The signature with the other s recovers the same key, and a third party can derive it: it must not count as
    // another request.
    if ecdsa.normalize_s() != ecdsa {
        return Err(SignedRequestFault::Malleable);
    }
    let key = VerifyingKey::recover_from_prehash(digest, &ecdsa, id)
        .map_err(|_| SignedRequestFault::Unreadable("no such point"))?;
    let point = key.to_sec1_point(true);
    let point = point.as_bytes().try_into().map_err(|_| SignedRequestFault::Unreadable("no such point"))?;
    Ok(PublicKey { curve: Curve::K1, point })
}

#[cfg(test)]
mod tests;
