-- Questions people ask. Every column of a row depends on that row alone, so a filter on root_execution_id, agent or id
-- reaches the indexes and a question about one tree does not read the others.

CREATE VIEW execution_tree AS
WITH own AS (
    SELECT
        e.*,
        max(0.0, coalesce(
            (julianday(coalesce(e.finished_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(e.started_at)) * 86400.0,
            0.0)) AS own_seconds, -- a clock that was set back makes no negative time
        e.input_tokens + e.output_tokens + e.cache_read_tokens + e.cache_write_tokens AS own_tokens
    FROM executions AS e
)
SELECT
    o.root_execution_id,
    o.id,
    o.parent_execution_id,
    (WITH RECURSIVE up (parent) AS (
        SELECT o.parent_execution_id
        UNION ALL
        SELECT a.parent_execution_id FROM executions AS a JOIN up ON a.id = up.parent)
     SELECT count(parent) FROM up) AS depth,
    o.path,
    o.agent,
    o.status,
    o.own_seconds,
    o.own_tokens,
    o.cost_usd AS own_cost_usd,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(s.own_seconds) FROM own AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_seconds,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(s.own_tokens) FROM own AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_tokens,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(s.cost_usd) FROM executions AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_cost_usd,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT count(*) FROM below) AS subtree_executions
FROM own AS o;

CREATE VIEW agent_costs AS
SELECT
    agent,
    count(*) AS executions,
    sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
    sum(CASE WHEN status IN ('failed', 'timed_out') THEN 1 ELSE 0 END) AS failed,
    sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) AS cancelled,
    sum(turns) AS turns,
    sum(tool_call_count) AS tool_calls,
    sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) AS tokens,
    sum(cost_usd) AS cost_usd
FROM executions
GROUP BY agent;

CREATE VIEW tool_errors AS
SELECT
    t.tool,
    t.error_type,
    count(*) AS errors,
    max(t.finished_at) AS last_at,
    max(e.agent) AS last_agent
FROM tool_calls AS t
JOIN executions AS e ON e.id = t.execution_id
WHERE t.is_error = 1
GROUP BY t.tool, t.error_type;
