//! API keys, as rows of the guard's file.

use super::audit;
use crate::{
    ApiKey, AuditActor, AuditRecord, AuditSubject, ChangeError, Hash, KEYS_MAX, KeyFingerprint, KeyId, KeyTerms,
    RetiringSecret,
};
use rusqlite::{Connection, Row, params};
use sabir_proto::Timestamp;
use std::collections::HashMap;

const COLUMNS: &str = "api_key.id, hash, prefix, owner, name, tier, scopes, agents, require_signature, relay, customer,
                       created_at, expires_at, revoked_at, at";

/// All keys, the oldest first; in place of an unreadable one, the problem.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<Result<ApiKey, String>>> {
    let sql = format!("SELECT {COLUMNS} FROM api_key LEFT JOIN key_use USING (id) ORDER BY created_at, api_key.id");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| Ok(key(row)))?;
    let mut keys: Vec<Result<ApiKey, String>> = rows.collect::<rusqlite::Result<_>>()?;
    let mut retiring: HashMap<String, Vec<RetiringSecret>> = HashMap::new();
    let mut statement = connection.prepare("SELECT id, hash, prefix, until FROM retiring ORDER BY id, place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        // An unreadable secret is skipped.
        if let Ok((id, old)) = replaced(row) {
            retiring.entry(id).or_default().push(old);
        }
    }
    for key in keys.iter_mut().flatten() {
        key.retiring = retiring.remove(key.id.as_str()).unwrap_or_default();
    }
    Ok(keys)
}

fn one(connection: &Connection, id: &KeyId) -> rusqlite::Result<Result<ApiKey, ChangeError>> {
    let sql = format!("SELECT {COLUMNS} FROM api_key LEFT JOIN key_use USING (id) WHERE api_key.id = ?1");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(Err(ChangeError::NoSuchKey(id.clone()))) };
    let mut key = match key(row) {
        Ok(key) => key,
        Err(problem) => return Ok(Err(ChangeError::Store(crate::StoreError::Corrupt(problem)))),
    };
    let sql = "SELECT id, hash, prefix, until FROM retiring WHERE id = ?1 ORDER BY place";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        key.retiring.extend(replaced(row).map(|(_, old)| old));
    }
    Ok(Ok(key))
}

/// Reads a key; a problem names the id of the key.
fn key(row: &Row<'_>) -> Result<ApiKey, String> {
    let id: String = row.get(0).map_err(|e| e.to_string())?;
    let damaged = |what: &str| format!("key {id:?}: {what}");
    let list = |at: usize| -> Result<Vec<String>, String> {
        let text: String = row.get(at).map_err(|e| damaged(&e.to_string()))?;
        serde_json::from_str(&text).map_err(|_| damaged("a list is not one"))
    };
    let text = |at: usize| row.get::<_, Option<String>>(at).map_err(|e| damaged(&e.to_string()));
    let time = |at: usize| {
        let ms: Option<i64> = row.get(at).map_err(|e| damaged(&e.to_string()))?;
        Ok::<_, String>(ms.map(Timestamp::from_millis))
    };
    let is = |at: usize| row.get::<_, bool>(at).map_err(|e| damaged(&e.to_string()));
    let hash = text(1)?.and_then(|hash| Hash::parse(&hash)).ok_or_else(|| damaged("its hash is not one"))?;
    Ok(ApiKey {
        id: KeyId::parse(&id).ok_or_else(|| damaged("its id is not one"))?,
        fingerprint: KeyFingerprint { hash, prefix: text(2)?.unwrap_or_default() },
        terms: KeyTerms {
            owner: text(3)?.unwrap_or_default(),
            name: text(4)?,
            tier: text(5)?,
            scopes: list(6)?,
            agents: list(7)?,
            require_signature: is(8)?,
            relay: is(9)?,
            customer: text(10)?,
            expires_at: time(12)?,
        },
        created_at: time(11)?.ok_or_else(|| damaged("it has no beginning"))?,
        revoked_at: time(13)?,
        last_used_at: time(14)?,
        retiring: Vec::new(),
    })
}

fn replaced(row: &Row<'_>) -> rusqlite::Result<(String, RetiringSecret)> {
    let hash: String = row.get(1)?;
    let hash = Hash::parse(&hash).ok_or(rusqlite::Error::InvalidQuery)?;
    let imprint = KeyFingerprint { hash, prefix: row.get(2)? };
    Ok((row.get(0)?, RetiringSecret { imprint, until: Timestamp::from_millis(row.get(3)?) }))
}

/// Writes a key as it is to be, with an audit entry.
fn put(connection: &Connection, key: ApiKey, operation: &'static str, by: &AuditActor) -> rusqlite::Result<ApiKey> {
    let (list, ms) =
        (|list: &[String]| serde_json::json!(list).to_string(), |time: Option<Timestamp>| time.map(Timestamp::millis));
    let terms = &key.terms;
    connection
        .prepare_cached(
            "INSERT INTO api_key (id, hash, prefix, owner, name, tier, scopes, agents, require_signature, relay,
                                  customer, created_at, expires_at, revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (id) DO UPDATE SET hash = ?2, prefix = ?3, revoked_at = ?14",
        )?
        .execute(params![
            key.id.as_str(),
            key.fingerprint.hash.to_string(),
            key.fingerprint.prefix,
            terms.owner,
            terms.name,
            terms.tier,
            list(&terms.scopes),
            list(&terms.agents),
            terms.require_signature,
            terms.relay,
            terms.customer,
            key.created_at.millis(),
            ms(terms.expires_at),
            ms(key.revoked_at),
        ])?;
    connection.prepare_cached("DELETE FROM retiring WHERE id = ?1")?.execute([key.id.as_str()])?;
    for (place, old) in (0i64..).zip(&key.retiring) {
        let sql = "INSERT INTO retiring (hash, id, prefix, until, place) VALUES (?1, ?2, ?3, ?4, ?5)";
        let (hash, prefix) = (old.imprint.hash.to_string(), &old.imprint.prefix);
        connection.prepare_cached(sql)?.execute(params![hash, key.id.as_str(), prefix, old.until.millis(), place])?;
    }
    audit::append(connection, &[AuditRecord::change(by, operation, Some(AuditSubject::Key(key.id.clone())))])?;
    Ok(key)
}

fn is_taken(connection: &Connection, hash: &Hash) -> rusqlite::Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM api_key WHERE hash = ?1) OR EXISTS (SELECT 1 FROM retiring WHERE hash = ?1)";
    connection.prepare_cached(sql)?.query_row([hash.to_string()], |row| row.get(0))
}

type KeyChangeResult = rusqlite::Result<Result<ApiKey, ChangeError>>;

pub(super) fn create(connection: &Connection, key: ApiKey, by: &AuditActor) -> KeyChangeResult {
    let sql = "SELECT count(*), count(*) FILTER (WHERE id = ?1) FROM api_key";
    let (all, same): (u32, u32) = connection.query_row(sql, [key.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if same > 0 || is_taken(connection, &key.fingerprint.hash)? {
        return Ok(Err(ChangeError::KeyTaken));
    }
    if usize::try_from(all).is_ok_and(|all| all >= KEYS_MAX) {
        return Ok(Err(ChangeError::TooMany { what: "keys", max: KEYS_MAX }));
    }
    put(connection, key, "key.create", by).map(Ok)
}

pub(super) fn revoke(connection: &Connection, id: &KeyId, by: &AuditActor) -> KeyChangeResult {
    match one(connection, id)? {
        Ok(key) if key.revoked_at.is_none() => {
            put(connection, ApiKey { revoked_at: Some(by.at), ..key }, "key.revoke", by).map(Ok)
        }
        as_it_is => Ok(as_it_is),
    }
}

pub(super) fn rotate(
    connection: &Connection,
    id: &KeyId,
    imprint: KeyFingerprint,
    old_until: Timestamp,
    by: &AuditActor,
) -> KeyChangeResult {
    let mut key = match one(connection, id)? {
        Ok(key) => key,
        Err(refused) => return Ok(Err(refused)),
    };
    if is_taken(connection, &imprint.hash)? {
        return Ok(Err(ChangeError::KeyTaken));
    }
    match key.rotate(imprint, old_until, by.at) {
        Ok(()) => put(connection, key, "key.rotate", by).map(Ok),
        Err(refused) => Ok(Err(refused)),
    }
}

pub(super) fn write_uses(connection: &Connection, uses: &HashMap<KeyId, Timestamp>) -> rusqlite::Result<()> {
    let sql = "INSERT INTO key_use (id, at) SELECT id, ?2 FROM api_key WHERE id = ?1
               ON CONFLICT (id) DO UPDATE SET at = max(at, ?2)";
    let mut statement = connection.prepare_cached(sql)?;
    uses.iter().try_for_each(|(id, at)| statement.execute(params![id.as_str(), at.millis()]).map(drop))
}
