//! Calling on behalf of our caller, among those who know each other's users: the apps of a workspace.
//!
//! All of them hold one secret, and whoever holds it says for which user a call is. A caller whom we know as such a user is
//! named again, in a token of our own that is made for each request; what the caller showed us is not passed on. Whoever
//! is known to us in another way is nobody there.

use sabir_client::Credentials;
use sabir_client::native_token::{Issuer, Organisation};
use sabir_guard::authn::Who;
use sabir_guard::authn::native_jwt::user_of;
use sabir_proto::Secret;
use std::sync::Arc;

/// How users are named to others.
#[derive(Debug, Clone)]
pub struct OnBehalf {
    /// The secret that all share.
    pub secret: Secret,
    /// Our own address.
    pub address: Option<String>,
}

impl OnBehalf {
    /// What is shown for a caller; none where the caller is no user.
    pub(crate) fn credentials(&self, caller: &str) -> Option<Credentials> {
        let (email, domain) = user_of(&Who::parse(caller)?)?;
        let mut issuer = Issuer::new(email, Some(self.secret.clone()));
        issuer.organisation = domain.map(|domain| Organisation { domain, secret: None });
        issuer.address.clone_from(&self.address);
        Some(Credentials { signer: Some(Arc::new(issuer)), ..Credentials::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_and_nobody_else_is() {
        let on_behalf = OnBehalf { secret: Secret::new("shared"), address: None };
        for (caller, is_named) in [
            ("native:user:ana@acme.test#acme.test", true),
            ("native:user:ana@acme.test", true),
            ("native:org:acme.test/ana@acme.test", true),
            ("key:k1", false),
            ("anonymous", false),
            ("xpr:user:ana@acme.test", false),
        ] {
            assert_eq!(on_behalf.credentials(caller).is_some(), is_named, "{caller}");
        }
    }
}
