-- Plans: every version of what an execution set out to do. The steps themselves are executions.

CREATE TABLE plans (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    request TEXT NOT NULL,
    analysis TEXT NOT NULL,
    resolved_values TEXT NOT NULL,
    steps TEXT NOT NULL,
    response_hint TEXT NOT NULL,
    trigger TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE UNIQUE INDEX plans_of_execution ON plans (execution_id, version);
