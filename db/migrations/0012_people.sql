-- People: who they are, what they and their assistant said to each other, and for whom an execution works.

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    timezone TEXT NOT NULL,
    locale TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    connections TEXT NOT NULL,
    aliases TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE chat_messages (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    token_count INTEGER,
    created_at TEXT NOT NULL,
    execution_id TEXT
);

CREATE INDEX chat_messages_of_user ON chat_messages (user_id, created_at);

CREATE UNIQUE INDEX chat_messages_of_execution ON chat_messages (execution_id, role) WHERE execution_id IS NOT NULL;

ALTER TABLE executions ADD COLUMN user_id TEXT;

CREATE INDEX executions_open_of_user ON executions (user_id) WHERE user_id IS NOT NULL AND finished_at IS NULL;
