-- The task log. All keys on the send path are stamps (48 bits of milliseconds, 15 bits of count), so rows and index
-- entries are appended at the right edge of their trees.

-- Who owns tasks: a caller, within a tenant, at an agent.
CREATE TABLE scope (
    n      INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    caller TEXT NOT NULL,
    agent  TEXT NOT NULL,
    UNIQUE (tenant, caller, agent)
);

-- One row per task. A task that opened and settled in one step is this row and nothing else.
CREATE TABLE task (
    k            INTEGER PRIMARY KEY, -- the stamp inside the task's id
    salt         INTEGER NOT NULL,    -- the random bits of the id
    scope        INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    position     INTEGER NOT NULL,    -- stamp of the last status: the order of lists
    moved        INTEGER NOT NULL,    -- commit that put it there
    head         INTEGER NOT NULL,    -- last event; for an unsettled task the event table knows better
    context      TEXT,                -- only where the context was not born with this task
    turn         INTEGER,             -- event after which the agent's turn began
    attempt      INTEGER,             -- how often it was begun
    retry        BLOB,                -- implicit retry key of the opening message, and its digest
    history_at   INTEGER,
    artifacts_at INTEGER,
    body         BLOB,                -- the task as JSON, once settled
    events       BLOB,                -- the events of a one-row task, one per line; NULL: the body is event 1
    child        INTEGER,             -- 1: another task's child, see kin
    adopted      INTEGER              -- 1: it was made for its owner by another one
);

-- Lists by owner, with and without a state.
CREATE INDEX task_order ON task (scope, state, position, moved);
-- Later tasks of a context, and all tasks of contexts that clients brought.
CREATE INDEX task_context ON task (scope, context, position, state, moved) WHERE context IS NOT NULL;

-- What waits for somebody, and children that are not settled: both small parts of the whole.
CREATE INDEX task_asking ON task (position) WHERE state IN (6, 8);
CREATE INDEX task_handed_over ON task (position) WHERE state = 9;
CREATE INDEX task_child ON task (k) WHERE child IS NOT NULL AND body IS NULL;

-- Children: tasks that agents opened with other agents, on behalf of a task of theirs.
CREATE TABLE kin (
    k           INTEGER PRIMARY KEY,  -- the child
    parent      INTEGER NOT NULL,
    parent_salt INTEGER NOT NULL,
    root        INTEGER NOT NULL,     -- the top of the family
    root_salt   INTEGER NOT NULL,
    name        TEXT NOT NULL,        -- the parent's key for it
    hops        INTEGER NOT NULL,     -- agents before it
    path        TEXT NOT NULL,        -- those agents, as a JSON array
    origin      TEXT,                 -- what the family is called where it began, if that was elsewhere
    readonly    INTEGER NOT NULL,     -- its tools may only look
    UNIQUE (parent, name)
);
CREATE INDEX kin_root ON kin (root);

-- What the agents of a family say they have spent, by its root.
CREATE TABLE spend (
    k      INTEGER PRIMARY KEY,
    micros INTEGER NOT NULL
);

-- Recent retry keys, read once at every start.
CREATE INDEX task_retry ON task (k, salt, retry) WHERE retry IS NOT NULL;

-- The events of tasks that take more than one step: a step is a row, its events are lines.
CREATE TABLE event (
    k     INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    at    INTEGER,                    -- with retry: when
    retry BLOB,                       -- implicit retry key of a follow-up message, and its digest
    lines BLOB NOT NULL,
    PRIMARY KEY (k, first)
) WITHOUT ROWID;
CREATE INDEX event_retry ON event (at) WHERE retry IS NOT NULL;

-- The latest image of an unsettled task; what follows it is folded on top.
CREATE TABLE snapshot (
    k            INTEGER PRIMARY KEY,
    seq          INTEGER NOT NULL,
    history_at   INTEGER NOT NULL,
    artifacts_at INTEGER NOT NULL,
    json         BLOB NOT NULL
);

-- What an agent left for itself with its last step.
CREATE TABLE checkpoint (
    k    INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);

-- Recent moves in lists, so that a walk can see the list as it stood when the walk began.
CREATE TABLE move (
    position INTEGER PRIMARY KEY,     -- where the task went
    scope    INTEGER NOT NULL,
    was      INTEGER NOT NULL,        -- where it stood
    since    INTEGER NOT NULL,        -- from this commit
    until    INTEGER NOT NULL,        -- up to this one
    k        INTEGER NOT NULL
);
CREATE INDEX move_was ON move (scope, was);

-- How many tasks an owner has in each state.
CREATE TABLE counter (
    scope INTEGER NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) WITHOUT ROWID;

-- The number of the last commit; one row. Numbers must not fall back at a restart, or lists would hide the latest tasks.
CREATE TABLE latest (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
);
INSERT INTO latest (one, number) VALUES (1, 0);

-- Names that callers gave their tasks; a name belongs to its owner and moves on when a task has settled.
CREATE TABLE alias (
    scope INTEGER NOT NULL,
    name  TEXT NOT NULL,
    k     INTEGER NOT NULL,
    salt  INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE INDEX alias_task ON alias (k);

-- What translations could not carry: beside the task, not in its log.
CREATE TABLE note (
    k        INTEGER NOT NULL,
    dialect  TEXT NOT NULL,
    kind     TEXT NOT NULL,
    path     TEXT NOT NULL,
    first_at INTEGER NOT NULL,        -- milliseconds
    count    INTEGER NOT NULL,
    PRIMARY KEY (k, dialect, kind, path)
) WITHOUT ROWID;

-- Explicit retry keys.
CREATE TABLE retry_key (
    key    BLOB PRIMARY KEY,
    digest BLOB NOT NULL,
    k      INTEGER NOT NULL,
    salt   INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX retry_key_until ON retry_key (until);

-- Push configurations, and what is owed to them.
CREATE TABLE push_config (
    k       INTEGER NOT NULL,
    id      TEXT NOT NULL,
    dialect TEXT NOT NULL,            -- it was registered in
    owner   INTEGER NOT NULL,         -- who shares a line for deliveries with whom
    host    TEXT NOT NULL,            -- whom it calls, spelled in one way
    ended   TEXT,                     -- why the receiver wants no more
    json    BLOB NOT NULL,
    PRIMARY KEY (k, id)
) WITHOUT ROWID;

-- Events owed, oldest first within a configuration; what was delivered is no longer here. Numbers are never used twice,
-- since operators name letters by them.
CREATE TABLE outbox (
    n        INTEGER PRIMARY KEY AUTOINCREMENT,
    k        INTEGER NOT NULL,
    salt     INTEGER NOT NULL,
    config   TEXT NOT NULL,
    owner    INTEGER NOT NULL,        -- as in push_config
    host     TEXT NOT NULL,
    next     INTEGER NOT NULL,        -- the oldest event that is owed
    last     INTEGER NOT NULL,        -- the last one
    at       INTEGER NOT NULL,        -- milliseconds: when they were committed
    since    INTEGER NOT NULL,        -- milliseconds: patience is counted from here
    due      INTEGER,                 -- milliseconds: when `next` is tried; only in the oldest row of a configuration
    attempts INTEGER NOT NULL DEFAULT 0,
    tries    TEXT,                    -- the latest attempts, as JSON
    buried   INTEGER,                 -- milliseconds: when it was given up
    reason   TEXT                     -- and why
);
CREATE INDEX outbox_due ON outbox (due) WHERE due IS NOT NULL;
CREATE INDEX outbox_lane ON outbox (owner, host, due) WHERE due IS NOT NULL;
CREATE INDEX outbox_order ON outbox (k, config, buried, next);
CREATE INDEX outbox_dead ON outbox (n) WHERE buried IS NOT NULL;
