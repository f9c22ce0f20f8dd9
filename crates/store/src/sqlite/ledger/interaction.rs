//! Records of envelopes. Those of envelopes that changed nothing are written with the next commit.

use super::super::writer::TaskLogWriter;
use super::super::{key, salt, task_id};
use crate::ledger::{INTERACTIONS_WAITING_MAX, Interaction, InteractionQuery};
use rusqlite::{Connection, Row, params};
use sabir_proto::{TaskId, Timestamp};

impl TaskLogWriter {
    pub(in super::super) fn write_interaction(&self, one: &Interaction) -> rusqlite::Result<()> {
        let sql = "INSERT INTO interaction (received_at, source, key, tier, from_agent, to_agent, intent, protocol,
                       correlation_id, timestamp_claimed, ttl_ms, payload, agent_context, signed, status, error_code,
                       http_status, latency_ms, booking, booking_salt, remote_addr, replay)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                       ?22)";
        self.connection.prepare_cached(sql)?.execute(params![
            one.received_at,
            one.source,
            one.key,
            one.tier,
            one.from_agent,
            one.to_agent,
            one.intent,
            one.protocol,
            one.correlation_id,
            one.timestamp_claimed,
            one.ttl_ms,
            one.payload,
            one.agent_context,
            one.signed,
            one.status,
            one.error_code,
            one.http_status,
            one.latency_ms,
            one.booking.map(TaskId::stamp).map(key),
            one.booking.map(salt),
            one.remote_addr,
            one.replay,
        ])?;
        Ok(())
    }

    /// Queues records for the next commit.
    pub(in super::super) fn add_interactions(&mut self, records: impl IntoIterator<Item = Interaction>) {
        self.interactions.extend(records);
        // Happens only where commits have failed for a long time.
        if self.interactions.len() > INTERACTIONS_WAITING_MAX {
            let excess = self.interactions.len() - INTERACTIONS_WAITING_MAX;
            self.interactions.drain(..excess);
            self.metrics.interactions_dropped.inc_by(u64::try_from(excess).unwrap_or(0));
        }
    }

    /// Writes one now, for callers that run the writer themselves.
    pub(in super::super) fn record_interaction(&mut self, interaction: Interaction) -> bool {
        self.add_interactions([interaction]);
        self.flush_interactions();
        self.interactions.is_empty()
    }

    /// Writes the queued records by themselves; those that cannot be written stay queued.
    pub(in super::super) fn flush_interactions(&mut self) {
        if self.interactions.is_empty() {
            return;
        }
        if let Err(error) = self.transact(&[]) {
            tracing::warn!(%error, records = self.interactions.len(), "records of envelopes wait for the next commit");
        }
    }
}

pub(super) fn list(connection: &Connection, query: &InteractionQuery) -> rusqlite::Result<Vec<Interaction>> {
    let sql = "SELECT received_at, source, key, tier, from_agent, to_agent, intent, protocol, correlation_id,
                   timestamp_claimed, ttl_ms, payload, agent_context, signed, status, error_code, http_status, latency_ms,
                   booking, booking_salt, remote_addr, replay
               FROM interaction WHERE (?1 IS NULL OR received_at >= ?1) AND (?2 IS NULL OR key = ?2)
               AND (?3 IS NULL OR from_agent = ?3) AND (?4 IS NULL OR intent = ?4) AND (?5 IS NULL OR status = ?5)
               ORDER BY n DESC LIMIT ?6";
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let since = query.since.map(Timestamp::millis);
    let asked = params![since, query.key, query.from_agent, query.intent, query.status, limit];
    connection.prepare_cached(sql)?.query_map(asked, read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Interaction> {
    let booking = row.get::<_, Option<i64>>(18)?.zip(row.get::<_, Option<i64>>(19)?);
    Ok(Interaction {
        received_at: row.get(0)?,
        source: row.get(1)?,
        key: row.get(2)?,
        tier: row.get(3)?,
        from_agent: row.get(4)?,
        to_agent: row.get(5)?,
        intent: row.get(6)?,
        protocol: row.get(7)?,
        correlation_id: row.get(8)?,
        timestamp_claimed: row.get(9)?,
        ttl_ms: row.get(10)?,
        payload: row.get(11)?,
        agent_context: row.get(12)?,
        signed: row.get(13)?,
        status: row.get(14)?,
        error_code: row.get(15)?,
        http_status: row.get(16)?,
        latency_ms: row.get(17)?,
        booking: booking.map(|(k, salt)| task_id(k, salt)),
        remote_addr: row.get(20)?,
        replay: row.get(21)?,
    })
}
