//! Variables of the systems that this server replaces: a deployment that sets them keeps its behaviour.
//!
//! They override the file, as `SABIR_*` do, with one exception. `A2A_SECRET` and `A2A_API_KEY` enable an authentication
//! method, so they only fill absent keys, and so does `A2A_SIGNING_KEY`. If a file lists the methods it accepts, or
//! names an issuer of its tokens, a variable that was set for another program must not add a method.

use toml::{Table, Value};

/// Applies the value of a variable to a configuration.
type Apply = fn(&mut Table, &str) -> Result<(), String>;

pub(super) const ALIASES: [(&str, Apply); 8] = [
    ("A2A_SECRET", secret),
    ("A2A_API_KEY", api_key),
    ("A2A_AUTH_REQUIRED", required),
    ("A2A_SIGNING_KEY", signing_key),
    ("A2A_MIN_KYC_LEVEL", |table, value| xpr(table, "min_kyc", value)),
    ("A2A_MIN_TRUST_SCORE", |table, value| xpr(table, "min_trust", value)),
    ("A2A_RATE_LIMIT", rate),
    ("A2A_TOOL_MODE", |table, value| put(section(table, &["limits"])?, "tool_mode", value.into())),
];

/// Applies the variables that are not empty, one at a time; `check` gets the table after each.
pub(super) fn apply<E>(
    table: &mut Table,
    variables: &[(String, String)],
    mut check: impl FnMut(&str, Result<&Table, String>) -> Result<(), E>,
) -> Result<(), E> {
    for (name, apply) in ALIASES {
        let value = variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.trim());
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let applied = apply(table, value);
            check(name, applied.map(|()| &*table))?;
        }
    }
    Ok(())
}

fn secret(table: &mut Table, _: &str) -> Result<(), String> {
    let auth = section(table, &["auth"])?;
    let issuer = auth.get("jwt").and_then(|jwt| jwt.get("issuer")).is_some();
    if allows_method(auth, "jwt") && !issuer {
        let jwt = section(auth, &["jwt"])?;
        jwt.entry("secret").or_insert_with(|| "env:A2A_SECRET".into());
    }
    Ok(())
}

fn api_key(table: &mut Table, _: &str) -> Result<(), String> {
    let auth = section(table, &["auth"])?;
    if allows_method(auth, "legacy_key") && !auth.contains_key("legacy_key") {
        put(section(auth, &["legacy_key"])?, "env", "A2A_API_KEY".into())?;
    }
    Ok(())
}

/// Only if there is a network, and the file names no signing key.
fn signing_key(table: &mut Table, _: &str) -> Result<(), String> {
    let said = table.get("auth").and_then(|auth| auth.get("agnt")).is_some();
    if table.contains_key("network") && !said {
        section(table, &["network"])?.entry("signing_key").or_insert_with(|| "env:A2A_SIGNING_KEY".into());
    }
    Ok(())
}

/// Only the word `false` turns it off.
fn required(table: &mut Table, value: &str) -> Result<(), String> {
    put(section(table, &["auth"])?, "required", (value != "false").into())
}

/// Only if accounts of the chain are accepted; otherwise the demand concerns no caller.
fn xpr(table: &mut Table, key: &str, value: &str) -> Result<(), String> {
    let number = number(value)?;
    match table.get_mut("auth").and_then(|auth| auth.get_mut("xpr")).and_then(Value::as_table_mut) {
        Some(xpr) => put(xpr, key, number),
        None => Ok(()),
    }
}

/// The limit of each caller. Callers without a credential share the limit of `anonymous`, as on XPR.
fn rate(table: &mut Table, value: &str) -> Result<(), String> {
    for key in ["rate_per_minute", "anonymous_per_minute"] {
        put(section(table, &["limits"])?, key, number(value)?)?;
    }
    xpr(table, "rate_per_minute", value)
}

fn number(value: &str) -> Result<Value, String> {
    value.parse::<i64>().map(Value::Integer).map_err(|_| "must be a whole number".into())
}

/// Whether a file allows an authentication method: it lists it, describes it, or describes none at all.
fn allows_method(auth: &Table, word: &str) -> bool {
    const WAYS: [&str; 5] = ["jwt", "legacy_key", "basic", "mtls", "xpr"];
    match auth.get("accept").and_then(Value::as_array) {
        Some(list) => list.iter().any(|one| one.as_str() == Some(word)),
        // The two methods that variables enable may be used together.
        None => WAYS.iter().all(|way| *way == word || matches!(*way, "jwt" | "legacy_key") || !auth.contains_key(*way)),
    }
}

fn put(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    table.insert(key.to_owned(), value);
    Ok(())
}

/// The table at a path, created if absent.
pub(super) fn section<'t>(table: &'t mut Table, path: &[&str]) -> Result<&'t mut Table, String> {
    path.iter().try_fold(table, |table, name| {
        let inner = table.entry((*name).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        inner
            .as_table_mut()
            .ok_or_else(|| format!("{name} is no section; only keys of sections can be set by variables"))
    })
}
