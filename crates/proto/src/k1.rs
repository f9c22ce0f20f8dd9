//! Keys and signatures of XPR Network as text: base58 with a checksum, behind a prefix that names the curve.
//!
//! | Text | Payload | Checksum |
//! |---|---|---|
//! | `SIG_K1_…` | recovery byte, r, s | RIPEMD-160 of payload and `K1` |
//! | `PUB_K1_…` | compressed point | RIPEMD-160 of payload and `K1` |
//! | `EOS…` | compressed point, the older form | RIPEMD-160 of payload |
//! | `PVT_K1_…` | scalar | RIPEMD-160 of payload and `K1` |
//! | `5…` (WIF) | 0x80, scalar | double SHA-256 |
//!
//! `R1` (P-256) keys and signatures are parsed, so that they can be compared; `WA` (WebAuthn) ones are only recognised.
//! This module is about text: it does not check whether a point is on the curve.

use ripemd::Ripemd160;
use sha2::{Digest as _, Sha256};
use std::fmt;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// The longest base58 text that is decoded. A signature has 95 characters; decoding time grows with the square.
const TEXT_MAX: usize = 128;
const CHECKSUM: usize = 4;

/// Why a text is not a key or a signature. The error does not repeat the text, because it may be a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum K1Fault {
    /// The prefix is unknown.
    #[error("unknown prefix")]
    Prefix,
    /// The text has a character outside base58.
    #[error("not base58")]
    Alphabet,
    /// The text is too long or too short.
    #[error("wrong length")]
    Length,
    /// The checksum is wrong, most likely by a typing error.
    #[error("wrong checksum")]
    Checksum,
    /// The text is a WebAuthn key or signature, which is only recognised.
    #[error("WebAuthn is not supported")]
    WebAuthn,
}

/// The curve a key or a signature belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Curve {
    /// secp256k1
    K1,
    /// P-256
    R1,
}

impl Curve {
    /// The name in prefixes and checksums.
    const fn name(self) -> &'static str {
        match self {
            Self::K1 => "K1",
            Self::R1 => "R1",
        }
    }

    /// Splits `SIG_K1_rest` and similar texts.
    fn of<'a>(text: &'a str, kind: &str) -> Result<(Self, &'a str), K1Fault> {
        let rest = text.strip_prefix(kind).ok_or(K1Fault::Prefix)?;
        match rest.split_at_checked(4) {
            Some(("_K1_", rest)) => Ok((Self::K1, rest)),
            Some(("_R1_", rest)) => Ok((Self::R1, rest)),
            Some(("_WA_", _)) => Err(K1Fault::WebAuthn),
            _ => Err(K1Fault::Prefix),
        }
    }
}

/// A public key. Both text forms of one key are equal after parsing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey {
    /// The curve of the point.
    pub curve: Curve,
    /// The compressed point.
    pub point: [u8; 33],
}

impl PublicKey {
    /// Parses `PUB_K1_`, `PUB_R1_` or `EOS`.
    pub fn parse(text: &str) -> Result<Self, K1Fault> {
        if let Some(rest) = text.strip_prefix("EOS") {
            return Ok(Self { curve: Curve::K1, point: decode_checked(rest, "")? });
        }
        let (curve, rest) = Curve::of(text, "PUB")?;
        Ok(Self { curve, point: decode_checked(rest, curve.name())? })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PUB_{}_{}", self.curve.name(), with_checksum(&self.point, self.curve.name()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A signature from which the signer's key can be recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverableSignature {
    /// The curve of the signature.
    pub curve: Curve,
    /// 31 plus the recovery id, in a well-formed signature.
    pub recovery: u8,
    /// r and s, each big-endian in 32 bytes.
    pub rs: [u8; 64],
}

impl RecoverableSignature {
    /// Parses `SIG_K1_` or `SIG_R1_`.
    pub fn parse(text: &str) -> Result<Self, K1Fault> {
        let (curve, rest) = Curve::of(text, "SIG")?;
        let [recovery, tail @ ..]: [u8; 65] = decode_checked(rest, curve.name())?;
        Ok(Self { curve, recovery, rs: tail })
    }
}

impl fmt::Display for RecoverableSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload: Vec<u8> = std::iter::once(self.recovery).chain(self.rs).collect();
        write!(out, "SIG_{}_{}", self.curve.name(), with_checksum(&payload, self.curve.name()))
    }
}

/// A private key on secp256k1. It cannot be printed.
#[derive(Clone)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// Parses `PVT_K1_`, or WIF in its uncompressed form, which the network's wallets export.
    ///
    /// The network's own library does not check the checksum of WIF. We do: better to refuse a mistyped key here than
    /// to have every peer refuse its signatures.
    pub fn parse(text: &str) -> Result<Self, K1Fault> {
        if text.starts_with("PVT") {
            return match Curve::of(text, "PVT")? {
                (Curve::K1, rest) => Ok(Self(decode_checked(rest, "K1")?)),
                (Curve::R1, _) => Err(K1Fault::Prefix),
            };
        }
        let bytes: [u8; 37] = decode_array(text)?;
        let (payload, checksum) = bytes.split_at(33);
        let [0x80, scalar @ ..] = payload else { return Err(K1Fault::Prefix) };
        if Sha256::digest(Sha256::digest(payload))[..CHECKSUM] != *checksum {
            return Err(K1Fault::Checksum);
        }
        let mut key = [0; 32];
        key.copy_from_slice(scalar);
        Ok(Self(key))
    }

    /// The scalar itself; only the signer needs it.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[redacted]")
    }
}

/// Whether a text is a legal account name: 1 to 12 of `a`–`z`, `1`–`5` and the dot.
pub fn is_account_name(text: &str) -> bool {
    (1..=12).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'1'..=b'5' | b'.'))
}

/// The payload of a text that ends with four bytes of RIPEMD checksum over payload and suffix.
fn decode_checked<const N: usize>(text: &str, suffix: &str) -> Result<[u8; N], K1Fault> {
    let bytes = decode(text)?;
    if bytes.len() != N + CHECKSUM {
        return Err(K1Fault::Length);
    }
    let (payload, checksum) = bytes.split_at(N);
    if ripemd(payload, suffix) != *checksum {
        return Err(K1Fault::Checksum);
    }
    payload.try_into().map_err(|_| K1Fault::Length)
}

fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], K1Fault> {
    decode(text)?.try_into().map_err(|_| K1Fault::Length)
}

fn with_checksum(payload: &[u8], suffix: &str) -> String {
    encode(&[payload, &ripemd(payload, suffix)].concat())
}

fn ripemd(payload: &[u8], suffix: &str) -> [u8; CHECKSUM] {
    let digest = Ripemd160::new().chain_update(payload).chain_update(suffix).finalize();
    [digest[0], digest[1], digest[2], digest[3]]
}

/// Bitcoin's base58: a number in base 58, and one `1` for each zero byte in front.
fn decode(text: &str) -> Result<Vec<u8>, K1Fault> {
    if text.len() > TEXT_MAX {
        return Err(K1Fault::Length);
    }
    let mut number: Vec<u8> = Vec::with_capacity(text.len()); // little-endian
    for character in text.bytes() {
        let digit = ALPHABET.iter().position(|&known| known == character).ok_or(K1Fault::Alphabet)?;
        let mut carry = digit;
        for byte in &mut number {
            carry += usize::from(*byte) * 58;
            *byte = low_byte(carry);
            carry >>= 8;
        }
        if carry > 0 {
            number.push(low_byte(carry));
        }
    }
    number.extend(text.bytes().take_while(|&character| character == b'1').map(|_| 0));
    number.reverse();
    Ok(number)
}

fn encode(bytes: &[u8]) -> String {
    let mut digits: Vec<u8> = Vec::with_capacity(bytes.len() * 2); // little-endian
    for &byte in bytes {
        let mut carry = usize::from(byte);
        for digit in &mut digits {
            carry += usize::from(*digit) << 8;
            *digit = low_byte(carry % 58);
            carry /= 58;
        }
        while carry > 0 {
            digits.push(low_byte(carry % 58));
            carry /= 58;
        }
    }
    digits.extend(bytes.iter().take_while(|&&byte| byte == 0).map(|_| 0));
    digits.iter().rev().map(|&digit| char::from(ALPHABET[usize::from(digit)])).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is asked for")]
const fn low_byte(number: usize) -> u8 {
    number as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIF: &str = "5JMh46ekRfmbmxY2UszYX2uHWTGdWrBBMyeaXYBbRnpnhMBSENU";
    const PVT: &str = "PVT_K1_YQURCfMDCcWx9kSgYeRzAAHrSiJiK6eAaoJN8rBuy9XhLRLsc";
    const PUB: &str = "PUB_K1_8cQsMa5SoqcNNsk4zWRPiAe6sk4DqysKKjJRek4zcSJaHdesdY";
    const EOS: &str = "EOS8cQsMa5SoqcNNsk4zWRPiAe6sk4DqysKKjJRek4zcSJaKJxUsK";
    const R1: &str = "PUB_R1_4xfDuHak5WfS1jdGX5QzFTXt6Wvim9Ejc9KuyKVQLq215QmWRg";
    const SIG: &str =
        "SIG_K1_JyRtjVkvrUc5nHS8UEWQaJUR37s2LWdyBHfqdsBzrHiT5jLYAyqumsuRjzcFtNwWPADAfZWRW4eSPvZDhBcAPu66jcJp6Z";

    #[test]
    fn one_key_has_two_names_and_one_value() {
        let key = PublicKey::parse(PUB).unwrap();
        assert_eq!(key, PublicKey::parse(EOS).unwrap());
        assert_eq!(key.to_string(), PUB);
        assert_eq!(PublicKey::parse(R1).unwrap().to_string(), R1);
        assert_ne!(key.curve, PublicKey::parse(R1).unwrap().curve);
    }

    #[test]
    fn a_private_key_has_two_names_and_no_debug_output() {
        let key = PrivateKey::parse(WIF).unwrap();
        assert_eq!(key.expose(), PrivateKey::parse(PVT).unwrap().expose());
        assert_eq!(format!("{key:?}"), "[redacted]");
    }

    #[test]
    fn a_signature_is_read_and_written() {
        let signature = RecoverableSignature::parse(SIG).unwrap();
        assert_eq!((signature.recovery, signature.rs[0], signature.rs[63]), (31, 0x1f, 0xde));
        assert_eq!(signature.to_string(), SIG);
    }

    #[test]
    fn zero_bytes_in_front_survive() {
        for bytes in [&[0, 0, 7][..], &[0], &[], &[0xff; 69], &[0; 69]] {
            assert_eq!(decode(&encode(bytes)).unwrap(), bytes);
        }
        assert_eq!(encode(b"Hello World!"), "2NEpo7TZRRrLZSi2U");
        assert_eq!(encode(&[0, 0, 0x28, 0x7f, 0xb4, 0xcd]), "11233QC4");
    }

    #[test]
    fn what_is_mistyped_is_refused() {
        let last = |text: &str, c: char| format!("{}{c}", &text[..text.len() - 1]);
        for (text, fault) in [
            (last(PUB, 'Z'), K1Fault::Checksum),
            (last(EOS, 'Z'), K1Fault::Checksum),
            (format!("{PUB}11"), K1Fault::Length),
            (PUB.replace("_K1_", "_K1_1"), K1Fault::Length),
            (PUB.replace("_K1_", "_R1_"), K1Fault::Checksum),
            (PUB.replace("_K1_", "_WA_"), K1Fault::WebAuthn),
            (PUB.replace("_K1_", "_X1_"), K1Fault::Prefix),
            (PUB.replace("_K1_8", "_K1_0"), K1Fault::Alphabet),
            (format!("PUB_K1_{}", "8".repeat(10_000)), K1Fault::Length),
            (format!("PUB_K1_é{PUB}"), K1Fault::Alphabet),
            ("PUB_é".to_owned(), K1Fault::Prefix),
            (String::new(), K1Fault::Prefix),
        ] {
            assert_eq!(PublicKey::parse(&text), Err(fault), "{text}");
        }
        let refused = |text: &str| PrivateKey::parse(text).unwrap_err();
        assert_eq!(refused(&last(WIF, 'V')), K1Fault::Checksum, "stricter than the peer's library");
        assert_eq!(refused(&last(PVT, 'd')), K1Fault::Checksum);
        assert_eq!(refused("KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn"), K1Fault::Length);
        assert_eq!(refused(PUB), K1Fault::Alphabet);
        assert_eq!(refused(&PVT.replace("K1", "R1")), K1Fault::Prefix);
    }

    #[test]
    fn accounts_have_short_names_in_few_characters() {
        for good in ["a", "alice", "bob.agent", "zz5", "abcdefghijkl"] {
            assert!(is_account_name(good), "{good}");
        }
        for bad in ["", "Alice", "abcdefghijklm", "a6", "a_b", "a b", "é", "a\n1"] {
            assert!(!is_account_name(bad), "{bad:?}");
        }
    }
}
