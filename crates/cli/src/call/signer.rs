//! `--xpr-account`: calls are signed as an account of XPR Network.
//!
//! The key comes from the environment alone. On a command line everybody would see it, and a file of settings may lie in
//! a repository.

use crate::problem::Problem;
use crate::redact::Redactor;
use crate::settings::Settings;
use sabir_client::xpr::Account;
use sabir_client::{Authorise, Secret};
use std::sync::Arc;

/// Where the key is.
const KEY: &str = "XPR_PRIVATE_KEY";

/// Who signs, if an account was named.
pub(super) fn signer(settings: &Settings, redactor: &Redactor) -> Result<Option<Arc<dyn Authorise>>, Problem> {
    let Some(name) = settings.text("xpr-account") else { return Ok(None) };
    let key = std::env::var(KEY).unwrap_or_default();
    let key = key.trim();
    redactor.learn(key);
    if key.is_empty() {
        return Err(Problem::usage(format!(
            "--xpr-account {name} signs calls with the key in {KEY}, which is not set"
        ))
        .hint(format!("export {KEY} with the account's active key, PVT_K1_… or WIF")));
    }
    let account = Account::new(name, &Secret::new(key));
    let account = account.map_err(|fault| Problem::usage(format!("--xpr-account: {fault}")).hint("sabir help"))?;
    Ok(Some(Arc::new(account)))
}
