-- The path of a delegation names the commands that agents were sent for, also below those agents.

ALTER TABLE executions ADD COLUMN delegation_path TEXT;

DROP VIEW delegations;

-- Rows of older versions know the command only in the input of the agent that was sent for it.
CREATE VIEW delegations AS
SELECT
    e.session_id,
    json_extract(c.input, '$.delegation.command') AS command,
    e.agent AS subagent,
    json_extract(c.input, '$.delegation.task_context.task_number') AS task_number,
    json_extract(c.input, '$.delegation.task_context.language') AS language,
    e.started_at AS start_time,
    e.timeout_seconds AS timeout,
    e.deadline_at AS deadline,
    e.status,
    e.depth AS delegation_depth,
    coalesce(
        e.delegation_path,
        json_extract(c.input, '$.delegation.delegation_path'),
        '[' || replace(json_quote(e.path), '/', '","') || ']') AS delegation_path,
    e.id AS execution_id,
    e.parent_execution_id,
    e.root_execution_id,
    e.principal,
    e.outcome,
    e.finished_at,
    e.result AS "return"
FROM executions AS e
LEFT JOIN executions AS c ON c.id = e.id AND c.role = 'direct'
WHERE e.parent_execution_id IS NOT NULL
    AND (e.finished_at IS NULL
        OR (e.started_at IS NOT NULL
            AND e.finished_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-3600 seconds')));
