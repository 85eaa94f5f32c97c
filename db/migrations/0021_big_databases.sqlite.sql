-- A database of a million executions: every question of the faces searches an index, and what agents used is added up when
-- an execution ends, not when it is asked.

-- Short ids are the last six characters.
CREATE INDEX executions_ending ON executions (substr(id, -6));

-- What models call tool calls ends at random, too; the end takes half of the space of the whole.
CREATE INDEX tool_calls_ending ON tool_calls (substr(call_id, -6));

-- A page of a list searches by one column. The others that a list may be filtered by are in the index, so that it reads
-- only the rows that it shows.
DROP INDEX executions_of_principal;
CREATE INDEX executions_of_principal ON executions (principal, id, agent, status) WHERE principal IS NOT NULL;

DROP INDEX executions_of_agent;
CREATE INDEX executions_of_agent ON executions (agent, id, status, principal);

DROP INDEX executions_roots;
CREATE INDEX executions_roots ON executions (parent_execution_id, id, status) WHERE parent_execution_id IS NULL;

CREATE INDEX executions_roots_of_principal ON executions (principal, id, agent, status, parent_execution_id)
    WHERE parent_execution_id IS NULL AND principal IS NOT NULL;

CREATE INDEX executions_roots_of_agent ON executions (agent, id, status, principal, parent_execution_id)
    WHERE parent_execution_id IS NULL;

CREATE INDEX executions_of_session ON executions (session_id, id) WHERE session_id IS NOT NULL;

-- Few executions are in these: calls of commands, extractions of facts, and what continues an earlier execution.
CREATE INDEX executions_commands ON executions (agent, coalesce(principal, ''), id)
    WHERE parent_execution_id IS NULL AND substr(task, 1, 1) = '/';

CREATE INDEX executions_extractors ON executions (user_id, id) WHERE role = 'extractor';

CREATE INDEX executions_continuing ON executions (continues_execution_id) WHERE continues_execution_id IS NOT NULL;

-- Deleting a tree deletes what its executions left in inboxes of others.
CREATE INDEX deliveries_of_child ON deliveries (child_execution_id) WHERE child_execution_id IS NOT NULL;

-- What `outrider show` looks for among all events of a tree.
CREATE INDEX events_stages ON events (root_execution_id, seq)
    WHERE type = 'execution.progress' AND json_extract(payload, '$.stage') IS NOT NULL;

CREATE INDEX events_upstream ON events (root_execution_id, seq) WHERE type >= 'upstream.' AND type < 'upstream/';

CREATE INDEX tool_calls_failed ON tool_calls (tool, error_type)
    WHERE status = 'unknown' OR (is_error = 1 AND error_type IS NOT 'cancelled');

-- What ended executions used, by the day they were created on. An execution is added when it ends and taken out when it is
-- deleted or, while it has ended, changed.
CREATE TABLE daily_totals (
    agent TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    executions INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (agent, day, model)
);

INSERT INTO daily_totals
SELECT agent, substr(created_at, 1, 10), coalesce(model, ''),
    count(*), sum(status = 'completed'), sum(status IN ('failed', 'timed_out')), sum(status = 'cancelled'), sum(turns),
    sum(tool_call_count), sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), sum(cost_usd)
FROM executions
WHERE finished_at IS NOT NULL
GROUP BY 1, 2, 3;

CREATE TRIGGER executions_ended AFTER UPDATE OF finished_at ON executions
WHEN old.finished_at IS NULL AND new.finished_at IS NOT NULL BEGIN
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd)
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd;
END;

-- A step that will not run is created ended.
CREATE TRIGGER executions_never_run AFTER INSERT ON executions WHEN new.finished_at IS NOT NULL BEGIN
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd)
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd;
END;

CREATE TRIGGER executions_deleted AFTER DELETE ON executions WHEN old.finished_at IS NOT NULL BEGIN
    UPDATE daily_totals SET
        executions = executions - 1,
        completed = completed - (old.status = 'completed'),
        failed = failed - (old.status IN ('failed', 'timed_out')),
        cancelled = cancelled - (old.status = 'cancelled'),
        turns = turns - old.turns,
        tool_calls = tool_calls - old.tool_call_count,
        tokens = tokens - old.input_tokens - old.output_tokens - old.cache_read_tokens - old.cache_write_tokens,
        cost_usd = cost_usd - old.cost_usd
    WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '');
    DELETE FROM daily_totals WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '') AND executions = 0;
END;

-- A call that was settled late still counts.
CREATE TRIGGER executions_charged AFTER UPDATE OF
    turns, tool_call_count, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd, status, model
ON executions WHEN old.finished_at IS NOT NULL BEGIN
    UPDATE daily_totals SET
        executions = executions - 1,
        completed = completed - (old.status = 'completed'),
        failed = failed - (old.status IN ('failed', 'timed_out')),
        cancelled = cancelled - (old.status = 'cancelled'),
        turns = turns - old.turns,
        tool_calls = tool_calls - old.tool_call_count,
        tokens = tokens - old.input_tokens - old.output_tokens - old.cache_read_tokens - old.cache_write_tokens,
        cost_usd = cost_usd - old.cost_usd
    WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '');
    DELETE FROM daily_totals WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '') AND executions = 0;
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd)
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd;
END;

-- Of all executions, open ones included.
CREATE VIEW daily_usage AS
SELECT
    agent,
    day,
    model,
    sum(executions) AS executions,
    sum(completed) AS completed,
    sum(failed) AS failed,
    sum(cancelled) AS cancelled,
    sum(turns) AS turns,
    sum(tool_calls) AS tool_calls,
    sum(tokens) AS tokens,
    sum(cost_usd) AS cost_usd
FROM (
    SELECT * FROM daily_totals
    UNION ALL
    SELECT e.agent, substr(e.created_at, 1, 10), coalesce(e.model, ''), 1, e.status = 'completed',
        e.status IN ('failed', 'timed_out'), e.status = 'cancelled', e.turns, e.tool_call_count,
        e.input_tokens + e.output_tokens + e.cache_read_tokens + e.cache_write_tokens, e.cost_usd
    FROM executions AS e
    WHERE e.finished_at IS NULL)
GROUP BY agent, day, model;

DROP VIEW agent_costs;

CREATE VIEW agent_costs AS
SELECT
    agent,
    sum(executions) AS executions,
    sum(completed) AS completed,
    sum(failed) AS failed,
    sum(cancelled) AS cancelled,
    sum(turns) AS turns,
    sum(tool_calls) AS tool_calls,
    sum(tokens) AS tokens,
    sum(cost_usd) AS cost_usd
FROM daily_usage
GROUP BY agent;

-- Without a common table of all executions, which some versions of SQLite make in full before they look at the filter.
DROP VIEW execution_tree;

CREATE VIEW execution_tree AS
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
    max(0.0, coalesce(
        (julianday(coalesce(o.finished_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(o.started_at)) * 86400.0,
        0.0)) AS own_seconds,
    o.input_tokens + o.output_tokens + o.cache_read_tokens + o.cache_write_tokens AS own_tokens,
    o.cost_usd AS own_cost_usd,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(max(0.0, coalesce(
        (julianday(coalesce(s.finished_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) - julianday(s.started_at)) * 86400.0,
        0.0)))
     FROM executions AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_seconds,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(s.input_tokens + s.output_tokens + s.cache_read_tokens + s.cache_write_tokens)
     FROM executions AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_tokens,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT sum(s.cost_usd)
     FROM executions AS s WHERE s.id IN (SELECT id FROM below)) AS subtree_cost_usd,
    (WITH RECURSIVE below (id) AS (
        SELECT o.id UNION ALL SELECT c.id FROM executions AS c JOIN below ON c.parent_execution_id = below.id)
     SELECT count(*) FROM below) AS subtree_executions
FROM executions AS o;

-- Open ones and those of the last hour are found each by their own index; as one condition they were found by none. `+` keeps
-- the index of parents out of it: nearly all executions have one.
DROP VIEW delegations;

CREATE VIEW delegations AS
WITH tracked AS (
    SELECT * FROM executions WHERE finished_at IS NULL AND +parent_execution_id IS NOT NULL
    UNION ALL
    SELECT * FROM executions
    WHERE finished_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-3600 seconds')
        AND started_at IS NOT NULL
        AND +parent_execution_id IS NOT NULL)
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
FROM tracked AS e
LEFT JOIN executions AS c ON c.id = e.id AND c.role = 'direct';
