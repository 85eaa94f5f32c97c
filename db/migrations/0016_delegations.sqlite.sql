-- Two views for people who look after many agents: who works for whom at the moment, and what went wrong.

-- What one agent has handed to another: everything at work or waiting for its turn, and what ended within the last hour.
-- A command is a label in the path; whoever was sent for one has it in its input. What others have in theirs is their own.
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

CREATE INDEX executions_finished ON executions (finished_at) WHERE finished_at IS NOT NULL;

-- Errors that arose in one tree belong together.
ALTER TABLE error_records DROP COLUMN related_errors;

CREATE INDEX error_records_execution ON error_records (execution_id);

CREATE VIEW errors AS
SELECT
    r.id,
    r.first_seen AS timestamp,
    r.type,
    r.severity,
    r.context,
    r.message,
    r.stack_trace,
    r.fix_status,
    r.fix_plan_ref,
    r.fix_task_ref,
    r.recurrence_count,
    r.first_seen,
    r.last_seen,
    (SELECT json_group_array(o.id)
     FROM executions AS mine
     JOIN executions AS other ON other.root_execution_id = mine.root_execution_id
     JOIN error_records AS o ON o.execution_id = other.id
     WHERE mine.id = r.execution_id AND o.id <> r.id) AS related_errors,
    r.execution_id
FROM error_records AS r;
