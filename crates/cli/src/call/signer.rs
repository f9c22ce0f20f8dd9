//! `--xpr-account` and `--as-user`: credentials that are made for each call.
//!
//! Keys and secrets come from the environment alone. Every user of the machine can read a command line, and a file of
//! settings may lie in a repository.

use crate::problem::Problem;
use crate::redact::Redactor;
use crate::settings::Settings;
use sabir_client::native_token::NativeTokenIssuer;
use sabir_client::xpr::XprAccount;
use sabir_client::{RequestCredential, Secret};
use std::sync::Arc;

/// The variable with the private key of an account.
const KEY_VARIABLE: &str = "XPR_PRIVATE_KEY";
/// The variable with the secret that agent-native servers share.
const SECRET_VARIABLE: &str = "A2A_SECRET";

/// The signer of calls, if an account or a user was named.
pub(super) fn signer(settings: &Settings, redactor: &Redactor) -> Result<Option<Arc<dyn RequestCredential>>, Problem> {
    match (account_signer(settings, redactor)?, user_signer(settings, redactor)?) {
        (Some(_), Some(_)) => {
            Err(Problem::usage("--xpr-account and --as-user are two credentials, and a call has one")
                .hint("leave one of them out"))
        }
        (account, user) => Ok(account.or(user)),
    }
}

/// Signs calls as an account of XPR Network, if one was named.
pub(super) fn account_signer(
    settings: &Settings,
    redactor: &Redactor,
) -> Result<Option<Arc<dyn RequestCredential>>, Problem> {
    let Some(name) = settings.xpr_account.text() else { return Ok(None) };
    let key = secret_from_environment(KEY_VARIABLE, redactor);
    if key.is_empty() {
        return Err(Problem::usage(format!(
            "--xpr-account {name} signs calls with the key in {KEY_VARIABLE}, which is not set"
        ))
        .hint(format!("export {KEY_VARIABLE} with the account's active key, PVT_K1_… or WIF")));
    }
    let account = XprAccount::new(name, &Secret::new(key));
    let account = account.map_err(|fault| Problem::usage(format!("--xpr-account: {fault}")).hint("sabir help"))?;
    Ok(Some(Arc::new(account)))
}

/// Names a user to an agent-native server, if one was given.
fn user_signer(settings: &Settings, redactor: &Redactor) -> Result<Option<Arc<dyn RequestCredential>>, Problem> {
    let Some(email) = settings.as_user.text() else { return Ok(None) };
    let shared = secret_from_environment(SECRET_VARIABLE, redactor);
    if shared.is_empty() {
        return Err(Problem::usage(format!(
            "--as-user {email} signs a token with the secret in {SECRET_VARIABLE}, which is not set"
        ))
        .hint(format!("export {SECRET_VARIABLE} with the secret that the agent's server has")));
    }
    if !email.split_once('@').is_some_and(|(name, domain)| !name.is_empty() && !domain.is_empty()) {
        return Err(
            Problem::usage(format!("--as-user {email}: a user is an e-mail address")).hint("--as-user ana@example.com")
        );
    }
    Ok(Some(Arc::new(NativeTokenIssuer::new(email, Some(Secret::new(shared))))))
}

/// A secret from the environment; empty where it is not set.
fn secret_from_environment(variable: &str, redactor: &Redactor) -> String {
    let value = std::env::var(variable).unwrap_or_default().trim().to_owned();
    redactor.learn(&value);
    value
}
