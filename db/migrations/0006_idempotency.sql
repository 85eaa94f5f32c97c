-- A caller that asks twice with the same key gets the same child.

CREATE UNIQUE INDEX executions_idempotency ON executions (parent_execution_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
