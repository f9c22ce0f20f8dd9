//! Private keys for signatures: read from PEM or JWK, generated where there is none, and never printed.

use super::public_key::from_info;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sabir_proto::digest::CERTIFICATES_MAX;
use sabir_proto::{Secret, canon};
use serde_json::{Map, Value, json};
use std::fmt;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::RSAPublicKey;

/// The longest key file we read; an RSA key of 8192 bits fits twice.
pub(super) const FILE_BYTES_MAX: usize = 32 * 1024;

/// The algorithm of a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// ECDSA on P-256, which every verifier supports.
    Es256,
    /// RSA with PKCS#1 padding.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// The `alg` value in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// Why a text is not a key. Nothing of it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyFault {
    /// Too long to be a key.
    #[error("the key file is too long")]
    TooLong,
    /// Neither PEM nor JWK.
    #[error("the key is neither PEM nor JWK")]
    Unreadable,
    /// A public key, or a shared secret.
    #[error("the key is not a private key")]
    NotPrivate,
    /// A curve, a size or an algorithm that we do not sign with.
    #[error("the key is not for ES256, RS256 (2048 to 8192 bits) or EdDSA")]
    Unsupported,
    /// Certificates beside the key that are not for it.
    #[error(
        "the first certificate beside the key cannot be read, or is for another key; or there are more than {CERTIFICATES_MAX}"
    )]
    Certificates,
    /// A name that would be empty.
    #[error("the key needs a name")]
    NoName,
    /// The library refused, which has no reason we know of.
    #[error("no key could be made")]
    Making,
}

/// A private key and its name.
pub struct SigningKey {
    id: String,
    private_key: PrivateKey,
    /// Certificates for it, its own first, as `x5c` has them.
    certificates: Vec<String>,
}

enum PrivateKey {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl SigningKey {
    /// Generates a key for ES256, and its file (PKCS#8 in PEM). Without a name, its thumbprint is the name (RFC 7638).
    pub fn generate(id: Option<&str>) -> Result<(Self, Secret), SigningKeyFault> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| SigningKeyFault::Making)?;
        let der = pair.to_pkcs8v1().map_err(|_| SigningKeyFault::Making)?;
        let body = STANDARD.encode(der.as_ref());
        let lines: Vec<&str> = body.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
        Ok((Self::named(PrivateKey::Es256(pair), id)?, Secret::new(pem)))
    }

    /// Reads a key file: PEM (PKCS#8, SEC 1 or PKCS#1) or a private JWK. The name is the one given, else the `kid` of
    /// the JWK, else the thumbprint. Certificates for the key may stand beside it in PEM; signatures then carry them.
    pub fn read(text: &Secret, id: Option<&str>) -> Result<Self, SigningKeyFault> {
        let text = text.expose().trim();
        if text.len() > FILE_BYTES_MAX {
            return Err(SigningKeyFault::TooLong);
        }
        if !text.starts_with('{') {
            let mut key = Self::named(from_pem(text)?, id)?;
            key.certificates = key.certificates(text)?;
            return Ok(key);
        }
        let Ok(Value::Object(jwk)) = canon::read(text) else { return Err(SigningKeyFault::Unreadable) };
        let pair = from_jwk(&jwk)?;
        // A key that says what it is for is not used for anything else.
        let fits = |name: &str, expected: &str| jwk.get(name).is_none_or(|value| value.as_str() == Some(expected));
        if !fits("alg", pair.algorithm().name()) || !fits("use", "sig") {
            return Err(SigningKeyFault::Unsupported);
        }
        Self::named(pair, id.or_else(|| jwk.get("kid").and_then(Value::as_str)))
    }

    fn named(pair: PrivateKey, id: Option<&str>) -> Result<Self, SigningKeyFault> {
        let id = match id {
            Some("") => return Err(SigningKeyFault::NoName),
            Some(id) => id.to_owned(),
            None => pair.thumbprint().ok_or(SigningKeyFault::Making)?,
        };
        Ok(Self { id, private_key: pair, certificates: Vec::new() })
    }

    /// The certificates in a PEM file, if the first is for this key.
    fn certificates(&self, text: &str) -> Result<Vec<String>, SigningKeyFault> {
        let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
        let list = list.map_err(|_| SigningKeyFault::Certificates)?;
        let Some(own) = list.first() else { return Ok(Vec::new()) };
        let (_, own) = X509Certificate::from_der(own).map_err(|_| SigningKeyFault::Certificates)?;
        let certified = from_info(own.public_key()).ok();
        if certified.is_none() || certified != self.private_key.public() || list.len() > CERTIFICATES_MAX {
            return Err(SigningKeyFault::Certificates);
        }
        Ok(list.iter().map(|certificate| STANDARD.encode(certificate)).collect())
    }

    /// Its certificates, as `x5c` has them.
    pub(super) fn certificate_chain(&self) -> &[String] {
        &self.certificates
    }

    /// The name of the key, its `kid`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm it signs with.
    pub fn algorithm(&self) -> SigningAlgorithm {
        self.private_key.algorithm()
    }

    /// The public half, as a JWK.
    pub fn public(&self) -> Value {
        let mut jwk = Value::Object(self.private_key.public().unwrap_or_default());
        jwk["kid"] = json!(self.id);
        jwk["alg"] = json!(self.algorithm().name());
        jwk["use"] = json!("sig");
        jwk
    }

    pub(super) fn sign(&self, input: &[u8]) -> Option<Vec<u8>> {
        match &self.private_key {
            PrivateKey::Es256(pair) => Some(pair.sign(&SystemRandom::new(), input).ok()?.as_ref().to_vec()),
            PrivateKey::EdDsa(pair) => Some(pair.try_sign(input).ok()?.as_ref().to_vec()),
            PrivateKey::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), input, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SigningKey({:?}, {})", self.id, self.algorithm().name())
    }
}

impl PrivateKey {
    fn algorithm(&self) -> SigningAlgorithm {
        match self {
            Self::Es256(_) => SigningAlgorithm::Es256,
            Self::Rs256(_) => SigningAlgorithm::Rs256,
            Self::EdDsa(_) => SigningAlgorithm::EdDsa,
        }
    }

    /// The members that make up the public key, and no other.
    fn public(&self) -> Option<Map<String, Value>> {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let jwk = match self {
            Self::Es256(pair) => {
                let [4, point @ ..] = pair.public_key().as_ref() else { return None };
                let (x, y) = point.split_at_checked(32)?;
                json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)})
            }
            Self::EdDsa(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())}),
            Self::Rs256(pair) => {
                let (_, key) = RSAPublicKey::from_der(pair.public_key().as_ref()).ok()?;
                json!({"kty": "RSA", "n": encode(without_leading_zeros(key.modulus)), "e": encode(without_leading_zeros(key.exponent))})
            }
        };
        jwk.as_object().cloned()
    }

    fn thumbprint(&self) -> Option<String> {
        thumbprint(&self.public()?)
    }
}

/// RFC 7638: the hash of the members that make up a public key, in their canonical order.
pub(super) fn thumbprint(public: &Map<String, Value>) -> Option<String> {
    let text = canon::jcs(public).ok()?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
    Some(URL_SAFE_NO_PAD.encode(digest))
}

/// DER puts a zero in front of numbers whose first bit is set; JWK does not.
pub(super) fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    &number[zeros..]
}

fn from_pem(text: &str) -> Result<PrivateKey, SigningKeyFault> {
    let public = text.contains("-----BEGIN PUBLIC KEY-----") || text.contains("-----BEGIN CERTIFICATE-----");
    if public && !text.contains(" PRIVATE KEY-----") {
        return Err(SigningKeyFault::NotPrivate);
    }
    let der = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| SigningKeyFault::Unreadable)?;
    let elliptic = |der: &[u8]| EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der);
    let pair = match &der {
        PrivateKeyDer::Sec1(der) => elliptic(der.secret_sec1_der()).ok().map(PrivateKey::Es256),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok().map(PrivateKey::Rs256),
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            let es256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok().map(PrivateKey::Es256);
            // OpenSSL leaves the public half out, which the strict reader takes for a fault.
            let eddsa = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(PrivateKey::EdDsa);
            let rs256 = || RsaKeyPair::from_pkcs8(der).ok().map(PrivateKey::Rs256);
            es256.or_else(eddsa).or_else(rs256)
        }
        _ => None,
    };
    pair.ok_or(SigningKeyFault::Unsupported)
}

fn from_jwk(jwk: &Map<String, Value>) -> Result<PrivateKey, SigningKeyFault> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str).unwrap_or_default();
    if !["EC", "RSA", "OKP"].contains(&text("kty")) {
        // Shared secrets are among them.
        return Err(if jwk.contains_key("kty") { SigningKeyFault::Unsupported } else { SigningKeyFault::Unreadable });
    }
    if !jwk.contains_key("d") {
        return Err(SigningKeyFault::NotPrivate);
    }
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)).map_err(|_| SigningKeyFault::Unreadable);
    let pair = match (text("kty"), text("crv")) {
        ("EC", "P-256") => {
            let point = [&[4][..], &bytes("x")?, &bytes("y")?].concat();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            EcdsaKeyPair::from_private_key_and_public_key(algorithm, &bytes("d")?, &point).ok().map(PrivateKey::Es256)
        }
        ("OKP", "Ed25519") => {
            Ed25519KeyPair::from_seed_and_public_key(&bytes("d")?, &bytes("x")?).ok().map(PrivateKey::EdDsa)
        }
        ("RSA", _) => {
            let components = KeyPairComponents {
                public_key: PublicKeyComponents { n: bytes("n")?, e: bytes("e")? },
                d: bytes("d")?,
                p: bytes("p")?,
                q: bytes("q")?,
                dP: bytes("dp")?,
                dQ: bytes("dq")?,
                qInv: bytes("qi")?,
            };
            RsaKeyPair::from_components(&components).ok().map(PrivateKey::Rs256)
        }
        _ => None,
    };
    pair.ok_or(SigningKeyFault::Unsupported)
}
