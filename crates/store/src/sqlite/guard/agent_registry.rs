//! The agent registry, as rows of the guard's file.

use super::audit;
use crate::{
    AGENTS_MAX, AuditActor, AuditRecord, AuditSubject, CARDS_KEPT, CardChange, CardObservation, CardState, ChangeError,
    PinnedInterface, RegisteredAgent, StoreError, StoredCard,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{AgentName, Timestamp};

type RegistryChangeResult<T> = rusqlite::Result<Result<T, ChangeError>>;
type RowResult<T> = Result<T, String>;

const AGENT: &str = "SELECT name, url, profile, settings, enabled, added_at FROM agent";
const CARD: &str = "SELECT agent, number, at, url, card, digest, binding, address, version, signer, changes, standing
                    FROM agent_card";

/// All agents by name; in place of an unreadable one, the problem.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<RowResult<RegisteredAgent>>> {
    connection.prepare(&format!("{AGENT} ORDER BY name"))?.query_map([], registered_agent)?.collect()
}

fn registered_agent(row: &Row<'_>) -> rusqlite::Result<RowResult<RegisteredAgent>> {
    let name: String = row.get(0)?;
    let Ok(name) = AgentName::parse(&name) else { return Ok(Err(format!("agent {name:?}: that is no name"))) };
    Ok(Ok(RegisteredAgent {
        name,
        url: row.get(1)?,
        profile: row.get(2)?,
        settings: row.get(3)?,
        enabled: row.get(4)?,
        added_at: Timestamp::from_millis(row.get(5)?),
    }))
}

fn one(connection: &Connection, name: &AgentName) -> rusqlite::Result<Option<RegisteredAgent>> {
    let found =
        connection.query_row(&format!("{AGENT} WHERE name = ?1"), [name.as_str()], registered_agent).optional()?;
    Ok(found.and_then(Result::ok))
}

pub(super) fn register_agent(
    connection: &Connection,
    new: &RegisteredAgent,
    card: Option<CardObservation>,
    by: &AuditActor,
) -> RegistryChangeResult<()> {
    if one(connection, &new.name)?.is_some() {
        return Ok(Err(ChangeError::AgentTaken(new.name.clone())));
    }
    let all: u32 = connection.query_row("SELECT count(*) FROM agent", [], |row| row.get(0))?;
    if usize::try_from(all).is_ok_and(|all| all >= AGENTS_MAX) {
        return Ok(Err(ChangeError::TooMany { what: "agents", max: AGENTS_MAX }));
    }
    let sql = "INSERT INTO agent (name, url, profile, settings, enabled, added_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let RegisteredAgent { name, url, profile, settings, enabled, added_at } = new;
    connection.execute(sql, params![name.as_str(), url, profile, settings, enabled, added_at.millis()])?;
    // Cards of a former agent of the same name in the configuration do not belong to this one.
    connection.execute("DELETE FROM agent_card WHERE agent = ?1", [name.as_str()])?;
    if let Some(card) = card {
        observe_card(connection, card)?;
    }
    audit::append(connection, &[AuditRecord::change(by, "agent.add", Some(AuditSubject::Agent(name.clone())))])?;
    Ok(Ok(()))
}

pub(super) fn enable_agent(
    connection: &Connection,
    name: &AgentName,
    enabled: bool,
    by: &AuditActor,
) -> RegistryChangeResult<RegisteredAgent> {
    let sql = "UPDATE agent SET enabled = ?2 WHERE name = ?1 AND enabled <> ?2";
    if connection.execute(sql, params![name.as_str(), enabled])? > 0 {
        let operation = if enabled { "agent.enable" } else { "agent.disable" };
        audit::append(connection, &[AuditRecord::change(by, operation, Some(AuditSubject::Agent(name.clone())))])?;
    }
    Ok(one(connection, name)?.ok_or_else(|| ChangeError::NoSuchAgent(name.clone())))
}

pub(super) fn remove_agent(
    connection: &Connection,
    name: &AgentName,
    by: &AuditActor,
) -> RegistryChangeResult<RegisteredAgent> {
    let Some(old) = one(connection, name)? else { return Ok(Err(ChangeError::NoSuchAgent(name.clone()))) };
    connection.execute("DELETE FROM agent WHERE name = ?1", [name.as_str()])?;
    connection.execute("DELETE FROM agent_card WHERE agent = ?1", [name.as_str()])?;
    audit::append(connection, &[AuditRecord::change(by, "agent.remove", Some(AuditSubject::Agent(name.clone())))])?;
    Ok(Ok(old))
}

pub(super) fn observe_card(connection: &Connection, card: CardObservation) -> rusqlite::Result<CardChange> {
    let agent = card.agent.as_str();
    let same = |standing: CardState| -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM agent_card WHERE agent = ?1 AND standing = ?2 AND digest = ?3 AND signer IS ?4";
        connection.prepare_cached(sql)?.exists(params![agent, standing.name(), card.digest, card.pin.signer])
    };
    let end = |standing: CardState| {
        let sql = "UPDATE agent_card SET standing = 'past' WHERE agent = ?1 AND standing = ?2";
        connection.execute(sql, params![agent, standing.name()])
    };
    if same(CardState::Used)? {
        end(CardState::Held)?;
        return Ok(CardChange::Unchanged);
    }
    if same(CardState::Held)? && card.state == CardState::Held {
        return Ok(CardChange::StillHeld);
    }
    end(CardState::Held)?;
    if card.state == CardState::Used {
        end(CardState::Used)?;
    }
    let sql = "SELECT coalesce(max(number), 0) + 1 FROM agent_card WHERE agent = ?1";
    let number: u32 = connection.query_row(sql, [agent], |row| row.get(0))?;
    let sql = "INSERT INTO agent_card
                   (agent, number, at, url, card, digest, binding, address, version, signer, changes, standing)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let PinnedInterface { binding, address, version, signer } = &card.pin;
    let changes = serde_json::to_string(&card.changes).unwrap_or_else(|_| "[]".into());
    let (at, standing) = (card.at.millis(), card.state.name());
    connection.execute(
        sql,
        params![
            agent,
            number,
            at,
            card.url,
            card.card,
            card.digest,
            binding,
            address,
            version,
            signer,
            changes,
            standing
        ],
    )?;
    let sql = "DELETE FROM agent_card WHERE agent = ?1 AND standing = 'past' AND number <= ?2";
    connection.execute(sql, params![agent, i64::from(number) - i64::try_from(CARDS_KEPT).unwrap_or(i64::MAX)])?;
    Ok(CardChange::New(number.into()))
}

fn stored_card(row: &Row<'_>) -> rusqlite::Result<RowResult<StoredCard>> {
    let (agent, standing, changes): (String, String, String) = (row.get(0)?, row.get(11)?, row.get(10)?);
    let (Ok(name), Some(standing)) = (AgentName::parse(&agent), CardState::parse(&standing)) else {
        return Ok(Err(format!("a card of agent {agent:?}: its name or standing is none")));
    };
    let Ok(changes) = serde_json::from_str(&changes) else {
        return Ok(Err(format!("a card of agent {agent:?}: its changes are no list")));
    };
    let pin = PinnedInterface { binding: row.get(6)?, address: row.get(7)?, version: row.get(8)?, signer: row.get(9)? };
    let seen = CardObservation {
        agent: name,
        at: Timestamp::from_millis(row.get(2)?),
        url: row.get(3)?,
        card: row.get(4)?,
        digest: row.get(5)?,
        pin,
        changes,
        state: standing,
    };
    Ok(Ok(StoredCard { number: u64::from(row.get::<_, u32>(1)?), observation: seen }))
}

/// The cards of an agent, oldest first.
pub(super) fn cards(connection: &Connection, name: &AgentName) -> rusqlite::Result<Vec<RowResult<StoredCard>>> {
    let sql = format!("{CARD} WHERE agent = ?1 ORDER BY number");
    connection.prepare(&sql)?.query_map([name.as_str()], stored_card)?.collect()
}

/// The used cards of all agents.
pub(super) fn used_cards(connection: &Connection) -> rusqlite::Result<Vec<RowResult<StoredCard>>> {
    let sql = format!("{CARD} WHERE standing = 'used' ORDER BY agent");
    connection.prepare(&sql)?.query_map([], stored_card)?.collect()
}

pub(super) fn approve_card(
    connection: &Connection,
    name: &AgentName,
    by: &AuditActor,
) -> RegistryChangeResult<Option<StoredCard>> {
    let sql = format!("{CARD} WHERE agent = ?1 AND standing = 'held'");
    let held = connection.query_row(&sql, [name.as_str()], stored_card).optional()?;
    let Some(mut held) = held.and_then(Result::ok) else { return Ok(Ok(None)) };
    for (before, after) in [("used", "past"), ("held", "used")] {
        let sql = "UPDATE agent_card SET standing = ?3 WHERE agent = ?1 AND standing = ?2";
        connection.execute(sql, [name.as_str(), before, after])?;
    }
    audit::append(connection, &[AuditRecord::change(by, "agent.approve", Some(AuditSubject::Agent(name.clone())))])?;
    held.observation.state = CardState::Used;
    Ok(Ok(Some(held)))
}

/// Turns the first unreadable row into an error, for queries that return everything.
pub(super) fn all_readable<T>(rows: Vec<RowResult<T>>) -> Result<Vec<T>, StoreError> {
    rows.into_iter().map(|row| row.map_err(StoreError::Corrupt)).collect()
}
