
-- A task that waits may have heard and said something since its latest snapshot. `a2a_tasks` folds it as the engine does: with
-- each status comes first the question that was asked before, and then the message that the status answers.
DROP VIEW a2a_tasks;
CREATE VIEW a2a_tasks AS
WITH image AS (
    SELECT t.k, t.salt, t.scope, t.state, t.position, t.body IS NULL AS open,
           coalesce(
               CAST(t.body AS TEXT),
               (SELECT CAST(s.json AS TEXT) FROM snapshot s WHERE s.k = t.k),
               (SELECT json_extract('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']',
                                    '$[0].task')
                FROM event e WHERE e.k = t.k AND e.first = 1)
           ) AS json,
           -- The event that the image is as of; without a snapshot the first one, which is the task.
           coalesce((SELECT s.seq FROM snapshot s WHERE s.k = t.k), 1) AS seq
    FROM task t
),
present AS (
    SELECT i.k, i.salt, i.scope, i.state, i.position, i.open, i.json,
           CASE WHEN i.open THEN (
               SELECT json_extract(one.value, '$.statusUpdate.status')
               FROM event e, json_each('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']') one
               WHERE e.k = i.k AND json_extract(one.value, '$.statusUpdate') IS NOT NULL
               ORDER BY e.first DESC, one.key DESC LIMIT 1
           ) END AS latest,
           CASE WHEN i.open THEN (
               SELECT json_group_array(json(said.message)) FROM (
                   SELECT 0 AS first, h.key AS n, h.value AS message FROM json_each(i.json, '$.history') h
                   UNION ALL
                   SELECT asked.first, asked.n, json_extract(asked.status, '$.message') FROM (
                       SELECT e.first, one.key AS n,
                              coalesce(lag(json_extract(one.value, '$.statusUpdate.status')) OVER (ORDER BY e.first, one.key),
                                       json_extract(i.json, '$.status')) AS status
                       FROM event e, json_each('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']') one
                       WHERE e.k = i.k AND (e.first > i.seq OR i.seq = 1 AND e.first = 1 AND one.key > 0)
                             AND json_extract(one.value, '$.statusUpdate') IS NOT NULL
                   ) asked
                   WHERE json_extract(asked.status, '$.state') IN ('TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED')
                         AND json_extract(asked.status, '$.message') IS NOT NULL
                   UNION ALL
                   SELECT e.first, one.key, one.value
                   FROM event e, json_each('[' || replace(replace(CAST(e.lines AS TEXT), char(10), ','), char(9), ',') || ']') one
                   WHERE e.k = i.k AND (e.first > i.seq OR i.seq = 1 AND e.first = 1 AND one.key > 0)
                         AND json_extract(one.value, '$.messageId') IS NOT NULL
                   ORDER BY first, n
               ) said
           ) ELSE coalesce(json_extract(i.json, '$.history'), '[]') END AS history
    FROM image i
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
       i.history,
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
       CASE WHEN i.open
           THEN json_set(i.json, '$.status', json(coalesce(i.latest, json_extract(i.json, '$.status'))), '$.history', json(i.history))
           ELSE i.json
       END AS json
FROM present i JOIN scope o ON o.n = i.scope;
