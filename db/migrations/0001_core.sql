-- The execution tree and everything an execution does: one row per execution, message, call, delivery and event.

CREATE TABLE executions (
    id TEXT NOT NULL PRIMARY KEY,
    parent_execution_id TEXT REFERENCES executions (id),
    root_execution_id TEXT NOT NULL,
    session_id TEXT,
    principal TEXT,
    owner TEXT,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    strategy TEXT NOT NULL,
    stage TEXT,
    position INTEGER NOT NULL,
    step_id TEXT,
    depends_on TEXT,
    tool_call_id TEXT UNIQUE,
    idempotency_key TEXT,
    continues_execution_id TEXT,
    task TEXT,
    input TEXT,
    status TEXT NOT NULL CHECK (status IN (
        'pending', 'running', 'completed', 'failed', 'timed_out', 'cancelled', 'blocked', 'skipped')),
    waiting_for TEXT,
    outcome TEXT,
    reason TEXT,
    result TEXT,
    error_type TEXT,
    error TEXT,
    depth INTEGER NOT NULL,
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    timeout_seconds DOUBLE PRECISION,
    deadline_at TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    cancel_requested_at TEXT,
    cancelled_by TEXT,
    cancel_reason TEXT,
    model TEXT,
    turns INTEGER NOT NULL,
    tool_call_count INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    budget_usd DOUBLE PRECISION,
    budget_reserved_usd DOUBLE PRECISION NOT NULL,
    budget_tokens INTEGER,
    config_hash TEXT
);
CREATE UNIQUE INDEX executions_siblings ON executions (parent_execution_id, coalesce(stage, ''), position);
CREATE INDEX executions_root ON executions (root_execution_id);
CREATE INDEX executions_created ON executions (created_at);
CREATE INDEX executions_open ON executions (owner) WHERE finished_at IS NULL;

CREATE TABLE events (
    seq INTEGER NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    parent_execution_id TEXT,
    root_execution_id TEXT NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    at TEXT NOT NULL
);
CREATE INDEX events_root ON events (root_execution_id, seq);

CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE UNIQUE INDEX messages_execution ON messages (execution_id, position);

CREATE TABLE model_calls (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    model TEXT NOT NULL,
    stop_reason TEXT,
    request_id TEXT,
    rehearsed INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    pricing TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT NOT NULL
);
CREATE INDEX model_calls_execution ON model_calls (execution_id);

CREATE TABLE tool_calls (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    server TEXT NOT NULL,
    arguments TEXT NOT NULL,
    effect TEXT NOT NULL,
    status TEXT NOT NULL,
    is_error INTEGER,
    error_type TEXT,
    result TEXT,
    full_result TEXT,
    started_at TEXT NOT NULL,
    finished_at TEXT
);
CREATE INDEX tool_calls_execution ON tool_calls (execution_id);

CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    execution_id TEXT NOT NULL,
    child_execution_id TEXT,
    kind TEXT NOT NULL,
    payload TEXT,
    created_at TEXT NOT NULL,
    consumed_at TEXT,
    consumed_by TEXT
);
CREATE INDEX deliveries_waiting ON deliveries (execution_id, consumed_at);

CREATE TABLE error_records (
    id TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    execution_id TEXT NOT NULL,
    type TEXT NOT NULL,
    severity TEXT NOT NULL,
    message TEXT NOT NULL,
    context TEXT NOT NULL,
    stack_trace TEXT,
    fix_status TEXT NOT NULL,
    fix_plan_ref TEXT,
    fix_task_ref TEXT,
    recurrence_count INTEGER NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    related_errors TEXT NOT NULL
);

CREATE TABLE config_snapshots (
    hash TEXT NOT NULL PRIMARY KEY,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL
);
