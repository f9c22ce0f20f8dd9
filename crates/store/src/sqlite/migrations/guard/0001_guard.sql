-- What the guard keeps. This file is open to several processes at once: a server, and the commands that administer it.

-- API keys. The hash is that of the whole text, in lower-case hexadecimal; times are milliseconds since 1970.
CREATE TABLE api_key (
    id                TEXT PRIMARY KEY,
    hash              TEXT NOT NULL UNIQUE,
    prefix            TEXT NOT NULL,
    owner             TEXT NOT NULL,
    name              TEXT,
    tier              TEXT,
    scopes            TEXT NOT NULL,      -- a JSON list
    agents            TEXT NOT NULL,      -- a JSON list
    require_signature INTEGER NOT NULL,
    relay             INTEGER NOT NULL,
    customer          TEXT,
    created_at        INTEGER NOT NULL,
    expires_at        INTEGER,
    revoked_at        INTEGER
);

-- Replaced texts that are valid for a while.
CREATE TABLE retiring (
    hash   TEXT PRIMARY KEY,
    id     TEXT NOT NULL REFERENCES api_key (id),
    prefix TEXT NOT NULL,
    until  INTEGER NOT NULL,
    place  INTEGER NOT NULL               -- 0 is the latest
) WITHOUT ROWID;
CREATE INDEX retiring_id ON retiring (id);

-- When a key was last used. Apart from the keys, since it moves all the time and changes nothing.
CREATE TABLE key_use (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;

-- Where the secrets of organisations are found; never the secrets.
CREATE TABLE organisation (
    domain   TEXT PRIMARY KEY,            -- in lower case
    secret   TEXT NOT NULL,               -- env:NAME or file:PATH
    added_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Agents that were added at run time; what stands in the configuration is not here.
CREATE TABLE agent (
    name     TEXT PRIMARY KEY,
    url      TEXT NOT NULL,
    profile  TEXT,
    settings TEXT NOT NULL,               -- the other keys of an [[agent]] section, a JSON object; never a secret
    enabled  INTEGER NOT NULL,
    added_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Cards that agents elsewhere have shown, also those of the configuration: one is used, one may be held, others are past.
CREATE TABLE agent_card (
    agent    TEXT NOT NULL,
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,            -- when it was first seen
    url      TEXT,                        -- where it was found
    card     TEXT NOT NULL,               -- as it was found
    digest   TEXT NOT NULL,               -- of what it says, without signatures
    binding  TEXT NOT NULL,               -- of the interface that is called
    address  TEXT NOT NULL,
    version  TEXT NOT NULL,
    signer   TEXT,                        -- the id of the key whose signature was good
    changes  TEXT NOT NULL,               -- a JSON list
    standing TEXT NOT NULL,               -- used, held or past
    PRIMARY KEY (agent, number)
);
CREATE UNIQUE INDEX agent_card_standing ON agent_card (standing, agent) WHERE standing <> 'past';

-- Each rises with every change, by whoever makes it, so that one number tells whether to look again: that of keys and
-- organisations (their uses do not count), and that of agents and their cards.
CREATE TABLE generation (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL,
    agents INTEGER NOT NULL
);
INSERT INTO generation (one, number, agents) VALUES (1, 1, 1);
CREATE TRIGGER key_made AFTER INSERT ON api_key BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER key_changed AFTER UPDATE ON api_key BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER key_gone AFTER DELETE ON api_key BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER retiring_made AFTER INSERT ON retiring BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER retiring_changed AFTER UPDATE ON retiring BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER retiring_gone AFTER DELETE ON retiring BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER organisation_made AFTER INSERT ON organisation BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER organisation_changed AFTER UPDATE ON organisation BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER organisation_gone AFTER DELETE ON organisation BEGIN UPDATE generation SET number = number + 1; END;
CREATE TRIGGER agent_made AFTER INSERT ON agent BEGIN UPDATE generation SET agents = agents + 1; END;
CREATE TRIGGER agent_changed AFTER UPDATE ON agent BEGIN UPDATE generation SET agents = agents + 1; END;
CREATE TRIGGER agent_gone AFTER DELETE ON agent BEGIN UPDATE generation SET agents = agents + 1; END;
CREATE TRIGGER agent_card_made AFTER INSERT ON agent_card BEGIN UPDATE generation SET agents = agents + 1; END;
CREATE TRIGGER agent_card_changed AFTER UPDATE ON agent_card BEGIN UPDATE generation SET agents = agents + 1; END;
CREATE TRIGGER agent_card_gone AFTER DELETE ON agent_card BEGIN UPDATE generation SET agents = agents + 1; END;

-- Signed requests that were seen, each until the last moment at which it could be accepted.
CREATE TABLE replay (
    mark  BLOB PRIMARY KEY,               -- a hash of scope and digest
    scope TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX replay_until ON replay (until);

-- How much of its quota a key has used on a day, numbered from the first of 1970, UTC.
CREATE TABLE quota (
    day  INTEGER NOT NULL,
    id   TEXT NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (day, id)
) WITHOUT ROWID;

-- The audit: canonical JSON, and the hash of the one before with it. Its end is kept apart, so that cutting it off shows.
CREATE TABLE audit (
    seq   INTEGER PRIMARY KEY,
    entry TEXT NOT NULL,
    hash  TEXT NOT NULL
);
CREATE TABLE audit_end (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_end (one, seq, hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
-- Against mistakes. Against intent there is the chain.
CREATE TRIGGER audit_not_edited BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_not_removed BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
