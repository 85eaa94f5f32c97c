-- Calls that wait for a person: what is asked, what was decided, and whether the decision was used.

CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    root_execution_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    principal TEXT,
    kind TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    requested_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    decision TEXT,
    decided_by TEXT,
    reason TEXT,
    decided_at TEXT,
    used_at TEXT
);

CREATE UNIQUE INDEX approvals_open ON approvals (tool_call_id) WHERE decision IS NULL;

CREATE INDEX approvals_root ON approvals (root_execution_id);
