-- Pages of executions: what ended badly, last ended first, and the dispatches of a tree that were refused. Both are few.

CREATE INDEX executions_ended_badly ON executions (parent_execution_id, finished_at, id, status, principal, agent)
    WHERE parent_execution_id IS NULL AND finished_at IS NOT NULL
        AND (status IN ('blocked', 'failed', 'timed_out') OR reason IN ('cost_budget', 'token_budget'));

CREATE INDEX events_refused ON events (root_execution_id, seq)
    WHERE type = 'timeline_event.completed' AND instr(payload, '"refused":') > 0;
