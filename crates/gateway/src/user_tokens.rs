//! Calls an upstream on behalf of our caller, where both servers know the same users: the apps of a workspace.
//!
//! All apps of a workspace share one secret, and an app that holds it names the user of a call. If our caller is such a
//! user, each request carries a token of our own that names the user; the token that the caller sent is not passed on.
//! For any other caller, no user is named.

use sabir_client::Credentials;
use sabir_client::native_token::{NativeTokenIssuer, Organisation};
use sabir_guard::authn::Principal;
use sabir_guard::authn::native_jwt::user_of_principal;
use sabir_proto::Secret;
use std::sync::Arc;

/// How users are named to the other apps of a workspace.
#[derive(Debug, Clone)]
pub struct UserTokens {
    /// The secret that all apps of the workspace share.
    pub secret: Secret,
    /// The address of this server, if it has one.
    pub issuer_address: Option<String>,
}

impl UserTokens {
    /// The credentials that name a caller; `None` if the caller is no user.
    pub(crate) fn credentials(&self, caller: &str) -> Option<Credentials> {
        let (email, domain) = user_of_principal(&Principal::parse(caller)?)?;
        let mut issuer = NativeTokenIssuer::new(email, Some(self.secret.clone()));
        issuer.organisation = domain.map(|domain| Organisation { domain, secret: None });
        issuer.address.clone_from(&self.issuer_address);
        Some(Credentials { signer: Some(Arc::new(issuer)), ..Credentials::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_and_nobody_else_is() {
        let on_behalf = UserTokens { secret: Secret::new("shared"), issuer_address: None };
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
