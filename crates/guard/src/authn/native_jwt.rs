//! Tokens of agent-native peers: a JWT that names a user, under a secret that both sides hold.
//!
//! There are two kinds of secret. The shared one (`A2A_SECRET`) is tried first. The secret of an organisation is found
//! by the `org_domain` that the token claims, so the lookup happens before anything is proven. Both MACs are always
//! computed, so that the time taken does not tell which domains are known here.
//!
//! We are stricter than the peer: HS256 only, an expiry unless a compatibility switch waives it, and known issuers if
//! issuers are configured. The peer's own signer makes nothing that we refuse.

use super::jws::{Claims, Jws, JwsFault};
use super::{Principal, Scheme, is_name};
use crate::unix_seconds;
use aws_lc_rs::hmac;
use sabir_proto::{Secret, Timestamp};

/// The key that stands in for an absent secret, so that the time taken is the same; any bytes will do.
const NO_SECRET: [u8; 32] = [0; 32];

/// The requirements on a token.
#[derive(Debug, Clone, Copy)]
pub struct NativeTokenSettings<'a> {
    /// `A2A_SECRET`; white space around it is ignored, as at the peer.
    pub secret: Option<&'a Secret>,
    /// Our own names, compared exactly. A token with an audience must name one of these; if the list is empty, such a
    /// token is refused.
    pub audiences: &'a [String],
    /// The accepted issuers; empty accepts every issuer, as at the peer.
    pub issuers: &'a [String],
    /// Whether a token needs an expiry.
    pub expiry: ExpiryRule,
}

/// Whether a token needs an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpiryRule {
    /// A token without an expiry is refused.
    #[default]
    Required,
    /// A token without an expiry is accepted, as at the peer. For compatibility.
    Optional,
}

/// A user that a holder of the secret has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeUser {
    /// The `sub` claim: the email address of the user.
    pub email: String,
    /// The `org_domain` claim; only a claim if [`NativeUser::secret_kind`] is the shared secret.
    pub org_domain: Option<String>,
    /// The `org_id` claim, trimmed.
    pub org_id: Option<String>,
    /// The kind of secret that verified the token.
    pub secret_kind: SecretKind,
    /// Whether the token was made for this server only: it names an audience, and we are in it.
    pub bound: bool,
    /// The moment from which the token is invalid; `None` for a token without an expiry.
    pub expires_at: Option<Timestamp>,
}

/// Which secret a token was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The secret that all peers share.
    Shared,
    /// The secret of the organisation that the token names.
    Organisation,
}

impl NativeUser {
    /// The user as a principal. The holder of an organisation's secret can name any user, so such users are kept apart
    /// from those of other organisations and of the shared secret; an email address cannot imitate the first word.
    /// Addresses are compared without case, as at the peer.
    pub fn principal(&self) -> Principal {
        let email = self.email.to_lowercase();
        let domain = self.org_domain.as_ref().map(|domain| domain.to_ascii_lowercase());
        let name = match (self.secret_kind, domain) {
            (SecretKind::Organisation, Some(domain)) => format!("org:{domain}/{email}"),
            // Only a claim, but its maker repeats it every time: the peer keeps such users apart as well.
            (_, Some(domain)) => format!("user:{email}#{domain}"),
            (_, None) => format!("user:{email}"),
        };
        Principal::new(Scheme::Native, name)
    }
}

/// The email and the organisation's domain of a principal that [`NativeUser::principal`] made; `None` for other
/// schemes.
pub fn user_of_principal(who: &Principal) -> Option<(String, Option<String>)> {
    if who.scheme != Scheme::Native {
        return None;
    }
    match who.name.split_once(':')? {
        ("org", rest) => rest.split_once('/').map(|(domain, email)| (email.to_owned(), Some(domain.to_owned()))),
        ("user", rest) => Some(match rest.rsplit_once('#') {
            Some((email, domain)) => (email.to_owned(), Some(domain.to_owned())),
            None => (rest.to_owned(), None),
        }),
        _ => None,
    }
}

/// Why a token names no user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NativeUserFault {
    /// Not a token.
    #[error(transparent)]
    Token(#[from] JwsFault),
    /// Any algorithm but HS256, such as `none` or another HMAC.
    #[error("only HS256 is accepted")]
    Algorithm,
    /// Neither a shared secret nor one of the organisation is configured.
    #[error("there is no secret to verify with")]
    NoSecret,
    /// No known secret gives this signature.
    #[error("the signature is wrong")]
    Signature,
    /// The token has expired.
    #[error("expired")]
    Expired,
    /// The token has no expiry, and one is required.
    #[error("the token has no expiry")]
    NoExpiry,
    /// The `nbf` time has not come yet.
    #[error("not valid yet")]
    NotYet,
    /// The token is for another audience.
    #[error("for another audience")]
    Audience,
    /// The issuer is not in the configured list.
    #[error("from an issuer that is not configured")]
    Issuer,
    /// The token names no user.
    #[error("the token names no user")]
    NoUser,
}

impl NativeUserFault {
    /// A short, stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Token(JwsFault::TooLong | JwsFault::Malformed(_)) => "token_malformed",
            Self::Token(JwsFault::Critical) => "token_critical",
            Self::Algorithm => "token_algorithm",
            Self::NoSecret => "token_no_secret",
            Self::Signature => "token_signature",
            Self::Expired => "token_expired",
            Self::NoExpiry => "token_no_expiry",
            Self::NotYet => "token_not_yet",
            Self::Audience => "token_audience",
            Self::Issuer => "token_issuer",
            Self::NoUser => "token_nobody",
        }
    }
}

/// The organisation that a token claims, in lower case; callers look up its secret before they call [`verify`]. Nothing
/// is proven yet.
pub fn claimed_organisation(token: &str) -> Option<String> {
    Jws::parse(token).ok().and_then(|jws| organisation_of(&jws.claims))
}

/// Verifies a token and returns the user it names. `organisation` returns the secret of a domain, given in lower case.
pub fn verify(
    token: &str,
    settings: NativeTokenSettings<'_>,
    organisation: impl FnOnce(&str) -> Option<Secret>,
    now: Timestamp,
) -> Result<NativeUser, NativeUserFault> {
    let jws = Jws::parse(token)?;
    if jws.algorithm != "HS256" {
        return Err(NativeUserFault::Algorithm);
    }
    let organisation = organisation_of(&jws.claims).and_then(|domain| organisation(&domain));
    let usable = |secret: Option<&Secret>| {
        secret.map(|secret| secret.expose().trim().as_bytes().to_vec()).filter(|secret| !secret.is_empty())
    };
    let (shared, theirs) = (usable(settings.secret), usable(organisation.as_ref()));
    if shared.is_none() && theirs.is_none() {
        return Err(NativeUserFault::NoSecret);
    }
    let under = match (is_signed_with(&jws, shared.as_deref()), is_signed_with(&jws, theirs.as_deref())) {
        (true, _) => SecretKind::Shared,
        (false, true) => SecretKind::Organisation,
        (false, false) => return Err(NativeUserFault::Signature),
    };
    check_claims(&jws.claims, settings, now)?;
    let owned = |name: &str| jws.claims.text(name).map(str::to_owned);
    // The domain becomes a part of the caller name.
    if jws.claims.text("org_domain").is_some_and(|domain| !is_name(domain)) {
        return Err(NativeUserFault::NoUser);
    }
    Ok(NativeUser {
        email: owned("sub").filter(|sub| is_name(sub)).ok_or(NativeUserFault::NoUser)?,
        org_domain: owned("org_domain"),
        org_id: owned("org_id").map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()),
        secret_kind: under,
        // A token that names another audience was refused above.
        bound: jws.claims.audience().is_some(),
        expires_at: jws.claims.time("exp")?.map(from_seconds),
    })
}

/// The time in milliseconds, rounded up to whole seconds, which is the resolution that counts here.
#[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
fn from_seconds(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds.ceil() * 1000.0) as i64)
}

fn organisation_of(claims: &Claims) -> Option<String> {
    claims.text("org_domain").map(str::to_ascii_lowercase)
}

/// Computes the MAC also without a secret; the result is false then.
fn is_signed_with(jws: &Jws<'_>, secret: Option<&[u8]>) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.unwrap_or(&NO_SECRET));
    let same = hmac::verify(&key, jws.input, &jws.signature).is_ok();
    same && secret.is_some()
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for longer than we do")]
fn check_claims(claims: &Claims, settings: NativeTokenSettings<'_>, now: Timestamp) -> Result<(), NativeUserFault> {
    let now = unix_seconds(now) as f64;
    claims.time("iat")?;
    match claims.time("exp")? {
        // There is no leeway, and the last second does not count.
        Some(expires) if expires <= now => return Err(NativeUserFault::Expired),
        None if settings.expiry == ExpiryRule::Required => return Err(NativeUserFault::NoExpiry),
        _ => {}
    }
    if claims.time("nbf")?.is_some_and(|from| from > now) {
        return Err(NativeUserFault::NotYet);
    }
    if let Some(named) = claims.audience()
        && !named.iter().any(|name| settings.audiences.iter().any(|own| own == name))
    {
        return Err(NativeUserFault::Audience);
    }
    let known = |issuer: &str| settings.issuers.iter().any(|one| one == issuer);
    if !settings.issuers.is_empty() && !claims.text("iss").is_some_and(known) {
        return Err(NativeUserFault::Issuer);
    }
    Ok(())
}

/// Our name if none is configured, derived as the peer derives it: from the `Host` of the request, with https unless a
/// proxy says otherwise.
pub fn own_audience(configured: Option<&str>, host: Option<&str>, forwarded_proto: Option<&str>) -> Option<String> {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(url) = given(configured) {
        return Some(url.trim_end_matches('/').to_owned());
    }
    let host = given(host)?;
    Some(format!("{}://{host}", forwarded_proto.filter(|proto| !proto.is_empty()).unwrap_or("https")))
}

#[cfg(test)]
mod tests;
