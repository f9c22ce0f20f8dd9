//! Refusals: what the peer is told, and what our own log is told.
//!
//! The two differ. A peer is told what it can do about it, and never which of several guesses came close; the audit has
//! the rule that decided.

use crate::authn::chain::ChainFault;
use crate::authn::{Scheme, basic, k1, mtls, native_jwt, oidc};
use sabir_proto::Fault;
use std::time::Duration;

/// Seconds to wait while a service that we depend on is unavailable.
const RETRY_AFTER_SECONDS: u64 = 10;

/// Why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The scheme of the caller's credential, if it showed one.
    pub scheme: Option<Scheme>,
    /// The rule that decided, for the audit and for metrics.
    pub reason: &'static str,
    /// What the peer is told.
    pub fault: Fault,
}

impl Refusal {
    pub(crate) fn unauthenticated(scheme: Option<Scheme>, reason: &'static str, words: impl Into<String>) -> Self {
        Self { scheme, reason, fault: Fault::Unauthenticated(words.into()) }
    }

    pub(crate) fn forbidden(scheme: Scheme, reason: &'static str, words: impl Into<String>) -> Self {
        Self { scheme: Some(scheme), reason, fault: Fault::Forbidden(words.into()) }
    }

    pub(crate) fn too_many(
        scheme: Option<Scheme>,
        reason: &'static str,
        words: impl Into<String>,
        wait: Duration,
    ) -> Self {
        // Whole seconds, and never so few that the next attempt comes too early.
        let retry_after = wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX).max(1);
        Self { scheme, reason, fault: Fault::RateLimited { words: words.into(), retry_after } }
    }

    /// A service that we depend on does not answer.
    pub(crate) fn unavailable(scheme: Option<Scheme>, reason: &'static str, words: impl Into<String>) -> Self {
        Self {
            scheme,
            reason,
            fault: Fault::AuthUnavailable { words: words.into(), retry_after: Some(RETRY_AFTER_SECONDS) },
        }
    }

    /// The kind of rule that decided, in one word that reveals no more.
    pub const fn rule(&self) -> &'static str {
        match self.fault {
            Fault::Forbidden(_) => "permission",
            Fault::RateLimited { .. } => "rate",
            Fault::AuthUnavailable { .. } => "unavailable",
            _ => "credential",
        }
    }

    pub(crate) fn missing_credential(words: String) -> Self {
        Self::unauthenticated(None, "missing", words)
    }

    /// More than one credential: whichever we took, the caller may have meant the other.
    pub(crate) fn two_credentials() -> Self {
        Self::unauthenticated(None, "two_credentials", "Send one credential; the request has more than one")
    }

    pub(crate) fn not_configured() -> Self {
        let words = "A2A authentication not configured. Add an [auth] section that names who may call (accept = …), or \
                     take the server out of production mode";
        Self {
            scheme: None,
            reason: "not_configured",
            fault: Fault::AuthUnavailable { words: words.into(), retry_after: None },
        }
    }

    /// A list of tasks for a caller without a credential. Where none is configured, asking for one would lead nowhere.
    pub(crate) fn anonymous_list(asks_for_credentials: bool) -> Self {
        let fault = if asks_for_credentials {
            Fault::Unauthenticated("Tasks are listed for callers who say who they are".into())
        } else {
            let words = "This server asks for no credential, so it lists no tasks; get a task by its id, or have the \
                         operator name credentials in [auth]";
            Fault::Forbidden(words.into())
        };
        Self { scheme: None, reason: "list_anonymous", fault }
    }

    pub(crate) fn store_unavailable() -> Self {
        Self::unavailable(None, "store_unavailable", "Callers cannot be checked at present")
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        refusal.fault
    }
}

impl Refusal {
    /// Refuses a request that is not signed by this account, in the words of the network's own server, which its clients
    /// show to people.
    pub(crate) fn bad_request_signature(reason: &k1::SignedRequestFault, account: &str) -> Self {
        use k1::SignedRequestFault as R;
        let account: String = account.chars().filter(|c| !c.is_control()).take(64).collect();
        let words = match reason {
            R::Incomplete => {
                "Authentication required: X-XPR-Account, X-XPR-Timestamp, and X-XPR-Signature headers are \
                              required"
                    .into()
            }
            R::Timestamp => "Invalid X-XPR-Timestamp: must be a Unix timestamp".into(),
            R::Window(_) => format!("Request timestamp too far from server time (window: {}s)", k1::WINDOW),
            R::AccountName => "Authentication error: not an account name".into(),
            R::Unreadable(_) | R::Curve | R::Malleable => "Invalid signature: could not recover public key".into(),
            R::WrongKey | R::TooLight { .. } => format!(
                "Signature verification failed: recovered key does not match any active key for account '{account}'"
            ),
            R::NoKeys => format!("Account '{account}' has no active keys"),
            R::Chain(ChainFault::NoPermission) => format!("Account '{account}' has no active permission"),
            R::Chain(ChainFault::Absent) => format!("Authentication error: account '{account}' is not on the chain"),
            R::Chain(ChainFault::Unavailable(_)) => {
                return Self::unavailable(
                    Some(Scheme::Xpr),
                    reason.code(),
                    "Authentication error: the chain cannot be asked",
                );
            }
        };
        Self::unauthenticated(Some(Scheme::Xpr), reason.code(), words)
    }
}

impl From<oidc::AccessTokenFault> for Refusal {
    fn from(reason: oidc::AccessTokenFault) -> Self {
        let code = reason.code();
        match reason {
            oidc::AccessTokenFault::Scope(missing) => {
                Self::forbidden(Scheme::Jwt, code, format!("The token lacks the scope {missing}"))
            }
            oidc::AccessTokenFault::KeysUnavailable(_) => {
                Self::unavailable(Some(Scheme::Jwt), code, "The keys of the token's issuer cannot be had at present")
            }
            _ => Self::unauthenticated(Some(Scheme::Jwt), code, "Invalid or expired token"),
        }
    }
}

impl From<native_jwt::NativeUserFault> for Refusal {
    fn from(reason: native_jwt::NativeUserFault) -> Self {
        Self::unauthenticated(Some(Scheme::Native), reason.code(), "Invalid or expired A2A token")
    }
}

impl From<basic::PasswordFault> for Refusal {
    fn from(reason: basic::PasswordFault) -> Self {
        let words = match reason {
            basic::PasswordFault::Plain => "Passwords are taken over TLS only",
            basic::PasswordFault::Malformed | basic::PasswordFault::Wrong => "Wrong user name or password",
        };
        Self::unauthenticated(Some(Scheme::Basic), reason.code(), words)
    }
}

impl From<mtls::CertificateFault> for Refusal {
    fn from(reason: mtls::CertificateFault) -> Self {
        Self::unauthenticated(Some(Scheme::Mtls), reason.code(), reason.to_string())
    }
}

/// An invalid key. All in the same words: a peer must not learn which keys there were.
pub(crate) fn key_refusal(standing: &sabir_store::KeyStatus) -> Refusal {
    let reason = match standing {
        sabir_store::KeyStatus::Valid(_) | sabir_store::KeyStatus::Unknown => "key_unknown",
        sabir_store::KeyStatus::Expired(_) => "key_expired",
        sabir_store::KeyStatus::Revoked(_) => "key_revoked",
    };
    Refusal::unauthenticated(Some(Scheme::ApiKey), reason, "Invalid API key")
}
