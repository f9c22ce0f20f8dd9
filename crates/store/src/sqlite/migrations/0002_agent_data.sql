-- What an agent keeps with a task for the later tasks of its conversation. Callers never see it.
CREATE TABLE agent_data (
    k    INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);
