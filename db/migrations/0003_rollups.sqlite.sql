-- Two more questions people ask: what became of everything below an execution, and what a tree had to wait for.
-- As in the views before, a filter on root_execution_id, agent or id reaches the indexes.

CREATE VIEW subtree_totals AS
SELECT
    o.root_execution_id,
    o.id,
    o.agent,
    count(*) AS executions,
    sum(s.status = 'pending') AS pending,
    sum(s.status = 'running') AS running,
    sum(s.status = 'completed') AS completed,
    sum(s.status = 'failed') AS failed,
    sum(s.status = 'timed_out') AS timed_out,
    sum(s.status = 'cancelled') AS cancelled,
    sum(s.status = 'blocked') AS blocked,
    sum(s.status = 'skipped') AS skipped,
    sum(s.turns) AS turns,
    sum(s.tool_call_count) AS tool_calls,
    sum(s.input_tokens + s.output_tokens + s.cache_read_tokens + s.cache_write_tokens) AS tokens,
    sum(s.cost_usd) AS cost_usd,
    sum(max(0.0, coalesce(
        (julianday(coalesce(s.finished_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(s.started_at)) * 86400.0,
        0.0))) AS seconds
FROM executions AS o
JOIN executions AS s ON s.id IN (
    WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
    SELECT id FROM below)
GROUP BY o.root_execution_id, o.id, o.agent;

-- From the top down, the child that ended last (or has not ended): to make a tree faster, begin here.
CREATE VIEW critical_path AS
SELECT
    o.root_execution_id,
    (WITH RECURSIVE up (parent) AS (
        SELECT o.parent_execution_id
        UNION ALL
        SELECT a.parent_execution_id FROM executions AS a JOIN up ON a.id = up.parent)
     SELECT count(parent) FROM up) AS step,
    o.id,
    o.agent,
    o.status,
    o.started_at,
    o.finished_at,
    max(0.0, coalesce(
        (julianday(coalesce(o.finished_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(o.started_at)) * 86400.0,
        0.0)) AS seconds
FROM executions AS o
WHERE NOT EXISTS (
    WITH RECURSIVE up (id, parent, ended) AS (
        SELECT o.id, o.parent_execution_id, coalesce(o.finished_at, 'open')
        UNION ALL
        SELECT a.id, a.parent_execution_id, coalesce(a.finished_at, 'open')
        FROM executions AS a JOIN up ON a.id = up.parent)
    SELECT 1
    FROM up
    JOIN executions AS s ON s.parent_execution_id = up.parent
    WHERE (coalesce(s.finished_at, 'open'), s.id) > (up.ended, up.id));
