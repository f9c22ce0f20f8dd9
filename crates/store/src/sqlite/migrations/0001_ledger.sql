
-- The ledger of the booking network. What is written with a booking has keys that rise with time.

-- Venues. Their keys are their places in every list, with room between them.
CREATE TABLE venue (
    n             INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    slug          TEXT NOT NULL UNIQUE,
    agent_id      TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    category      TEXT NOT NULL,
    description   TEXT,
    area          TEXT,
    city          TEXT,
    tags          TEXT NOT NULL,       -- a JSON array
    price_range   TEXT,
    priority_rank INTEGER,
    below         INTEGER NOT NULL,    -- the rank, upside down; none comes last
    endpoint      TEXT,
    settings      TEXT,                -- a JSON object
    basis_points  INTEGER NOT NULL,    -- the fee, in hundredths of a percent
    floor_cents   INTEGER,
    flat_cents    INTEGER,
    active        INTEGER NOT NULL,
    category_key  TEXT NOT NULL        -- the category in lower case
);
CREATE UNIQUE INDEX venue_place ON venue (below, name, id);
CREATE INDEX venue_active ON venue (n) WHERE active = 1;
CREATE INDEX venue_category ON venue (category_key, n) WHERE active = 1;

-- Everything that venues say, once and in lower case: words, places and categories.
CREATE TABLE venue_word (
    id   INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,             -- 0: a word, 1: an area or a city, 2: a category
    text TEXT NOT NULL,
    UNIQUE (kind, text)
);
-- What is part of which of them.
CREATE VIRTUAL TABLE venue_word_text USING fts5(
    word, place, content = '', contentless_delete = 1, tokenize = 'trigram'
);
-- Which of them an active venue says, as letters and numbers: w7 p8 c9. A row has the key of its venue, so what is found
-- comes in order.
CREATE VIRTUAL TABLE venue_text USING fts5(
    tokens, content = '', contentless_delete = 1, tokenize = 'ascii', detail = 'none'
);

-- What can be booked of a venue.
CREATE TABLE slot (
    venue    TEXT NOT NULL,            -- its id
    id       TEXT NOT NULL,
    time     TEXT NOT NULL,
    capacity INTEGER NOT NULL,
    taken    INTEGER NOT NULL CHECK (taken >= 0),
    PRIMARY KEY (venue, id)
) WITHOUT ROWID;

-- Bookings; each is called what its task is called, and stays when the task is forgotten. Times are milliseconds.
CREATE TABLE booking (
    k           INTEGER PRIMARY KEY,
    salt        INTEGER NOT NULL,
    venue       TEXT NOT NULL,         -- its id
    slot        TEXT,
    time        TEXT,
    party_size  INTEGER,
    note        TEXT,
    key         TEXT NOT NULL,         -- the id of the key it was made with
    from_agent  TEXT NOT NULL,
    correlation TEXT,
    status      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    held        INTEGER NOT NULL,      -- it began as one that is only held
    held_until  INTEGER,               -- while it is only held
    moves       TEXT                   -- where it went since, as JSON
);
CREATE INDEX booking_held ON booking (held_until) WHERE held_until IS NOT NULL;

-- What is counted: one row for a booking, in the commit of the booking.
CREATE TABLE usage (
    k         INTEGER PRIMARY KEY,     -- the booking
    salt      INTEGER NOT NULL,
    key       TEXT NOT NULL,
    intent    TEXT NOT NULL,
    cents     INTEGER NOT NULL,
    customer  TEXT,                    -- who pays, as the biller knows it
    at        INTEGER NOT NULL,
    batch     TEXT,                    -- it is billed with
    synced_at INTEGER                  -- when the biller had it
);
CREATE INDEX usage_unsynced ON usage (k) WHERE synced_at IS NULL;

-- What one payer is billed for one day, under its own name.
CREATE TABLE usage_batch (
    id         TEXT PRIMARY KEY,
    customer   TEXT NOT NULL,
    day        INTEGER NOT NULL,       -- days since 1970
    count      INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    sent_at    INTEGER,                -- from then on nobody knows whether the biller has it
    synced_at  INTEGER,                -- until now: it has
    manual     TEXT                    -- why somebody has to look at it
) WITHOUT ROWID;
CREATE INDEX usage_batch_open ON usage_batch (day) WHERE synced_at IS NULL;

-- Who wants to hear of the bookings of a key. Deliveries are signed with the secrets, so they are here.
CREATE TABLE subscription (
    id             TEXT PRIMARY KEY,
    key            TEXT NOT NULL,
    url            TEXT NOT NULL,
    events         TEXT NOT NULL,      -- a JSON array; empty for all
    secret         TEXT NOT NULL,
    previous       TEXT,
    previous_until INTEGER,
    created_at     INTEGER NOT NULL,
    ended          TEXT
) WITHOUT ROWID;
CREATE INDEX subscription_key ON subscription (key);

-- Payments; each is called what its task is called, and so is its booking. Tokens are not in it.
CREATE TABLE payment (
    k          INTEGER PRIMARY KEY,
    salt       INTEGER NOT NULL,
    key        TEXT NOT NULL,
    amount     INTEGER NOT NULL,       -- minor units
    currency   TEXT NOT NULL,
    processor  TEXT NOT NULL,
    token      TEXT NOT NULL,          -- a digest
    once       TEXT,                   -- no other payment may use this, unless this one fails
    books      INTEGER NOT NULL,
    status     TEXT NOT NULL,
    reference  TEXT,                   -- what the processor calls it
    receipt    TEXT,
    created_at INTEGER NOT NULL,
    journal    TEXT NOT NULL           -- JSON
);
CREATE UNIQUE INDEX payment_once ON payment (once) WHERE once IS NOT NULL AND status <> 'failed';
CREATE INDEX payment_key ON payment (key, currency, created_at);
CREATE INDEX payment_open ON payment (k) WHERE status NOT IN ('captured', 'failed');

-- What other networks say of themselves, as they signed it.
CREATE TABLE network (
    network     TEXT PRIMARY KEY,
    seq         INTEGER NOT NULL,
    record      TEXT NOT NULL,
    signature   TEXT NOT NULL,
    origin      TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    gone        INTEGER NOT NULL,
    disputed    INTEGER NOT NULL,
    change      INTEGER NOT NULL UNIQUE
) WITHOUT ROWID;
-- The number of the last change; one row. Numbers are never used twice, since peers go on from them.
CREATE TABLE network_change (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
);
INSERT INTO network_change (one, number) VALUES (1, 0);

-- Envelopes: who asked for what, and what came of it. Rows are only ever added; secrets are not in them.
CREATE TABLE interaction (
    n                 INTEGER PRIMARY KEY,
    received_at       INTEGER NOT NULL,
    source            TEXT NOT NULL,
    key               TEXT,
    tier              TEXT,
    from_agent        TEXT NOT NULL,
    to_agent          TEXT NOT NULL,
    intent            TEXT NOT NULL,
    protocol          TEXT NOT NULL,
    correlation_id    TEXT,
    timestamp_claimed TEXT,
    ttl_ms            INTEGER,
    payload           TEXT,
    agent_context     TEXT,
    signed            TEXT,            -- the key it was signed with
    status            TEXT NOT NULL,
    error_code        TEXT,
    http_status       INTEGER NOT NULL,
    latency_ms        INTEGER NOT NULL,
    booking           INTEGER,         -- its k
    booking_salt      INTEGER,
    remote_addr       TEXT,
    replay            INTEGER NOT NULL
);

CREATE VIEW interactions AS
SELECT n AS id, received_at, source, key AS api_key_id, tier, from_agent, to_agent, intent, protocol, correlation_id,
       timestamp_claimed, ttl_ms, payload AS payload_json, agent_context AS agent_context_json,
       signed IS NOT NULL AS signed, signed AS signing_key, status, error_code, http_status, latency_ms,
       CASE WHEN booking IS NOT NULL THEN
           printf('%08x-%04x-7%03x-%04x-%012x', booking >> 31, (booking >> 15) & 65535, (booking & 32767) >> 3,
                  32768 | ((booking & 7) << 11) | (booking_salt >> 48), booking_salt & 281474976710655)
       END AS booking_id,
       remote_addr, replay AS idempotent_replay
FROM interaction;
