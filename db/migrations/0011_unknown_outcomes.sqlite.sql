-- A tool call ends as completed, failed or unknown. Until now one that was stopped on its way was called cancelled, whether
-- or not it may have taken effect; a dispatch is committed with its result, so nothing about it is unknown.

UPDATE tool_calls SET effect = 'idempotent' WHERE server = 'orchestrator' AND effect = 'at_most_once';

UPDATE tool_calls
SET status = CASE WHEN effect IN ('read_only', 'idempotent') THEN 'failed' ELSE 'unknown' END
WHERE status = 'cancelled';

DROP VIEW tool_errors;

-- What was stopped by somebody's wish is no error of its tool, unless nobody knows what it did.
CREATE VIEW tool_errors AS
SELECT
    t.tool,
    t.error_type,
    count(*) AS errors,
    sum(t.status = 'unknown') AS outcome_unknown,
    max(t.finished_at) AS last_at,
    max(e.agent) AS last_agent
FROM tool_calls AS t
JOIN executions AS e ON e.id = t.execution_id
WHERE t.status = 'unknown' OR (t.is_error = 1 AND t.error_type IS NOT 'cancelled')
GROUP BY t.tool, t.error_type;
