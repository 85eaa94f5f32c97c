-- A caller from outside that asks twice with the same key gets the same execution; each caller has keys of its own.

CREATE UNIQUE INDEX executions_root_keys ON executions (coalesce(principal, ''), idempotency_key)
    WHERE parent_execution_id IS NULL AND idempotency_key IS NOT NULL;
