-- How many bytes the tasks of an owner have in this file: the lines of their events, the text of those that have settled,
-- and what agents keep with them. Kept only while a limit on them is configured.
CREATE TABLE stored_bytes (
    scope INTEGER PRIMARY KEY,
    n     INTEGER NOT NULL
);

-- Whether `stored_bytes` is kept; one row. Where it is not, the table is empty, and says nothing.
CREATE TABLE stored_bytes_counting (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    is_counted INTEGER NOT NULL
);
INSERT INTO stored_bytes_counting (one, is_counted) VALUES (1, 0);

-- The owner of a task that is gone, whose events are still to be deleted: their bytes are taken off as they go.
ALTER TABLE forgotten ADD COLUMN scope INTEGER;
