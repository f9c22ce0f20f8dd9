
-- A random number of this store, so that a page token of another one is recognised; one row.
CREATE TABLE store_identity (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
);
INSERT INTO store_identity (one, number) VALUES (1, random());
