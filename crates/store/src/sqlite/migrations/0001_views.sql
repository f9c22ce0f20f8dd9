
-- Retry keys of a task that is forgotten go with it.
CREATE INDEX retry_key_task ON retry_key (k);

-- Tasks that are gone, whose events are still to be deleted.
CREATE TABLE forgotten (
    k INTEGER PRIMARY KEY
);

-- Cancels that agents elsewhere have not acknowledged: what our agent needs to tell them again, and when.
CREATE TABLE owed_cancel (
    k        INTEGER PRIMARY KEY,
    salt     INTEGER NOT NULL,
    data     BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    due      INTEGER NOT NULL         -- milliseconds
);

-- Waits for other agents: our task, theirs, and when it is next looked at. Times are milliseconds since 1970. What was
-- needed only to wait is erased once the wait has ended. Credentials are configured and never kept here.
CREATE TABLE continuation (
    id                             TEXT PRIMARY KEY,
    k                              INTEGER NOT NULL, -- our task, which waits
    salt                           INTEGER NOT NULL,
    platform                       TEXT NOT NULL DEFAULT 'a2a',
    external_thread_id             TEXT,             -- the conversation over there
    incoming_payload               TEXT,             -- what was asked, as JSON
    placeholder_ref                TEXT,
    progress_ref                   TEXT,
    progress_ref_claimed           INTEGER NOT NULL DEFAULT 0 CHECK (progress_ref_claimed IN (0, 1)),
    agent_name                     TEXT NOT NULL,    -- the remote agent
    agent_url                      TEXT NOT NULL,
    dedupe_key                     TEXT,
    a2a_task_id                    TEXT,             -- the task over there, once it is known
    verified_artifact_checkpoint   TEXT,             -- how far its answer has been taken over
    terminal_delivery_kind         TEXT CHECK (terminal_delivery_kind IN ('success', 'failure')),
    terminal_delivery_confirmed_at INTEGER,
    terminal_history_payload       TEXT,
    status                         TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'delivering', 'completed', 'failed')),
    attempts                       INTEGER NOT NULL DEFAULT 0,
    next_check_at                  INTEGER NOT NULL,
    error_message                  TEXT,
    created_at                     INTEGER NOT NULL,
    updated_at                     INTEGER NOT NULL,
    completed_at                   INTEGER,
    UNIQUE (k, agent_url, a2a_task_id)
);
CREATE UNIQUE INDEX continuation_progress ON continuation (k) WHERE progress_ref_claimed = 1;
CREATE INDEX continuation_due ON continuation (next_check_at) WHERE status IN ('pending', 'processing', 'delivering');

-- For people and their tools; docs/guides/sql.md describes both views, and nothing of ours reads them.
--
-- A line of the log is an event, and after a tab the message it answers; compact JSON has neither tabs nor line breaks.
CREATE VIEW a2a_tasks AS
WITH image AS (
    SELECT t.k, t.salt, t.scope, t.state, t.position, t.head,
           coalesce(
               CAST(t.body AS TEXT),
               (SELECT CAST(s.json AS TEXT) FROM snapshot s WHERE s.k = t.k),
               (SELECT json_extract('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']',
                                    '$[0].task')
                FROM event e WHERE e.k = t.k AND e.first = 1)
           ) AS json,
           CASE WHEN t.body IS NULL THEN (
               SELECT json_extract(one.value, '$.statusUpdate.status')
               FROM event e, json_each('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']') one
               WHERE e.k = t.k AND json_extract(one.value, '$.statusUpdate') IS NOT NULL
               ORDER BY e.first DESC, one.key DESC LIMIT 1
           ) END AS latest
    FROM task t
)
SELECT printf('%08x-%04x-7%03x-%04x-%012x', i.k >> 31, (i.k >> 15) & 65535, (i.k & 32767) >> 3,
              32768 | ((i.k & 7) << 11) | (i.salt >> 48), i.salt & 281474976710655) AS id,
       json_extract(i.json, '$.contextId') AS context_id,
       CASE i.state
           WHEN 1 THEN 'submitted' WHEN 2 THEN 'working' WHEN 3 THEN 'completed' WHEN 4 THEN 'failed'
           WHEN 5 THEN 'canceled' WHEN 6 THEN 'input-required' WHEN 7 THEN 'rejected' WHEN 8 THEN 'auth-required'
           WHEN 9 THEN 'transferred'
       END AS status_state,
       json_extract(coalesce(i.latest, json_extract(i.json, '$.status')), '$.message') AS status_message,
       json_extract(coalesce(i.latest, json_extract(i.json, '$.status')), '$.timestamp') AS status_timestamp,
       coalesce(json_extract(i.json, '$.history'), '[]') AS history,
       coalesce(json_extract(i.json, '$.artifacts'), '[]') AS artifacts,
       json_extract(i.json, '$.metadata') AS metadata,
       CASE WHEN o.caller LIKE 'native:%' THEN
           CASE WHEN instr(o.caller, '/') > 0 THEN substr(o.caller, instr(o.caller, '/') + 1) ELSE substr(o.caller, 8) END
       END AS owner_email,
       CASE
           WHEN o.caller NOT LIKE 'native:%' THEN ''
           WHEN instr(o.caller, '/') > 0 THEN substr(o.caller, 8, instr(o.caller, '/') - 8)
           ELSE '__personal__'
       END AS owner_scope,
       (SELECT lower(hex(r.key)) FROM retry_key r WHERE r.k = i.k AND r.salt = i.salt ORDER BY r.at LIMIT 1) AS idempotency_key,
       i.k >> 15 AS created_at,
       i.position >> 15 AS updated_at,
       o.agent AS agent,
       o.tenant AS tenant,
       o.caller AS owner,
       i.json AS json
FROM image i JOIN scope o ON o.n = i.scope;

CREATE VIEW a2a_continuations AS
SELECT c.id,
       printf('%08x-%04x-7%03x-%04x-%012x', c.k >> 31, (c.k >> 15) & 65535, (c.k & 32767) >> 3,
              32768 | ((c.k & 7) << 11) | (c.salt >> 48), c.salt & 281474976710655) AS integration_task_id,
       c.platform, c.external_thread_id, c.incoming_payload, c.placeholder_ref, c.progress_ref, c.progress_ref_claimed,
       CASE WHEN o.caller LIKE 'native:%' THEN
           CASE WHEN instr(o.caller, '/') > 0 THEN substr(o.caller, instr(o.caller, '/') + 1) ELSE substr(o.caller, 8) END
       END AS owner_email,
       CASE WHEN o.caller LIKE 'native:%' AND instr(o.caller, '/') > 0
           THEN substr(o.caller, 8, instr(o.caller, '/') - 8)
       END AS org_id,
       c.agent_name, c.agent_url, c.dedupe_key, c.a2a_task_id, NULL AS a2a_auth_token, c.verified_artifact_checkpoint,
       c.terminal_delivery_kind, c.terminal_delivery_confirmed_at, c.terminal_history_payload, c.status, c.attempts,
       c.next_check_at, c.error_message, c.created_at, c.updated_at, c.completed_at
FROM continuation c LEFT JOIN task t ON t.k = c.k AND t.salt = c.salt LEFT JOIN scope o ON o.n = t.scope;
