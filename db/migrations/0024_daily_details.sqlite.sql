-- Usage of a day in the detail that a page shows. `price_kinds` are the kinds of price of the calls: 1 priced, 2 partly, 4 unpriced,
-- 8 rehearsed; a kind stays when an execution is deleted, until the last one of its day is.

DROP TRIGGER executions_ended;

DROP TRIGGER executions_never_run;

DROP TRIGGER executions_deleted;

DROP TRIGGER executions_charged;

ALTER TABLE daily_totals ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE daily_totals ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE daily_totals ADD COLUMN cache_read_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE daily_totals ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;

ALTER TABLE daily_totals ADD COLUMN seconds DOUBLE PRECISION NOT NULL DEFAULT 0;

ALTER TABLE daily_totals ADD COLUMN price_kinds INTEGER NOT NULL DEFAULT 0;

DELETE FROM daily_totals;

INSERT INTO daily_totals
SELECT e.agent, substr(e.created_at, 1, 10), coalesce(e.model, ''),
    count(*), sum(e.status = 'completed'), sum(e.status IN ('failed', 'timed_out')), sum(e.status = 'cancelled'), sum(e.turns),
    sum(e.tool_call_count), sum(e.input_tokens + e.output_tokens + e.cache_read_tokens + e.cache_write_tokens), sum(e.cost_usd),
    sum(e.input_tokens), sum(e.output_tokens), sum(e.cache_read_tokens), sum(e.cache_write_tokens),
    sum(max(0.0, coalesce((julianday(e.finished_at) - julianday(e.started_at)) * 86400.0, 0.0))),
    coalesce(max(k.priced) | max(k.partly) * 2 | max(k.unpriced) * 4 | max(k.rehearsed) * 8, 0)
FROM executions AS e
LEFT JOIN (
    SELECT m.execution_id,
        max(m.rehearsed = 0 AND m.pricing = 'priced') AS priced,
        max(m.rehearsed = 0 AND m.pricing = 'partly') AS partly,
        max(m.rehearsed = 0 AND m.pricing = 'unpriced') AS unpriced,
        max(m.rehearsed = 1) AS rehearsed
    FROM model_calls AS m
    GROUP BY m.execution_id) AS k ON k.execution_id = e.id
WHERE e.finished_at IS NOT NULL
GROUP BY 1, 2, 3;

CREATE TRIGGER executions_ended AFTER UPDATE OF finished_at ON executions
WHEN old.finished_at IS NULL AND new.finished_at IS NOT NULL BEGIN
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd,
        new.input_tokens, new.output_tokens, new.cache_read_tokens, new.cache_write_tokens,
        max(0.0, coalesce((julianday(new.finished_at) - julianday(new.started_at)) * 86400.0, 0.0)),
        coalesce((
            SELECT max(m.rehearsed = 0 AND m.pricing = 'priced') | max(m.rehearsed = 0 AND m.pricing = 'partly') * 2
                | max(m.rehearsed = 0 AND m.pricing = 'unpriced') * 4 | max(m.rehearsed = 1) * 8
            FROM model_calls AS m
            WHERE m.execution_id = new.id), 0))
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        seconds = seconds + excluded.seconds,
        price_kinds = price_kinds | excluded.price_kinds;
END;

-- A step that will not run is created ended.
CREATE TRIGGER executions_never_run AFTER INSERT ON executions WHEN new.finished_at IS NOT NULL BEGIN
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd,
        new.input_tokens, new.output_tokens, new.cache_read_tokens, new.cache_write_tokens,
        max(0.0, coalesce((julianday(new.finished_at) - julianday(new.started_at)) * 86400.0, 0.0)),
        coalesce((
            SELECT max(m.rehearsed = 0 AND m.pricing = 'priced') | max(m.rehearsed = 0 AND m.pricing = 'partly') * 2
                | max(m.rehearsed = 0 AND m.pricing = 'unpriced') * 4 | max(m.rehearsed = 1) * 8
            FROM model_calls AS m
            WHERE m.execution_id = new.id), 0))
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        seconds = seconds + excluded.seconds,
        price_kinds = price_kinds | excluded.price_kinds;
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
        cost_usd = cost_usd - old.cost_usd,
        input_tokens = input_tokens - old.input_tokens,
        output_tokens = output_tokens - old.output_tokens,
        cache_read_tokens = cache_read_tokens - old.cache_read_tokens,
        cache_write_tokens = cache_write_tokens - old.cache_write_tokens,
        seconds = seconds - max(0.0, coalesce((julianday(old.finished_at) - julianday(old.started_at)) * 86400.0, 0.0))
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
        cost_usd = cost_usd - old.cost_usd,
        input_tokens = input_tokens - old.input_tokens,
        output_tokens = output_tokens - old.output_tokens,
        cache_read_tokens = cache_read_tokens - old.cache_read_tokens,
        cache_write_tokens = cache_write_tokens - old.cache_write_tokens,
        seconds = seconds - max(0.0, coalesce((julianday(old.finished_at) - julianday(old.started_at)) * 86400.0, 0.0))
    WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '');
    DELETE FROM daily_totals WHERE agent = old.agent AND day = substr(old.created_at, 1, 10) AND model = coalesce(old.model, '') AND executions = 0;
    INSERT INTO daily_totals VALUES (
        new.agent, substr(new.created_at, 1, 10), coalesce(new.model, ''), 1, new.status = 'completed',
        new.status IN ('failed', 'timed_out'), new.status = 'cancelled', new.turns, new.tool_call_count,
        new.input_tokens + new.output_tokens + new.cache_read_tokens + new.cache_write_tokens, new.cost_usd,
        new.input_tokens, new.output_tokens, new.cache_read_tokens, new.cache_write_tokens,
        max(0.0, coalesce((julianday(new.finished_at) - julianday(new.started_at)) * 86400.0, 0.0)),
        coalesce((
            SELECT max(m.rehearsed = 0 AND m.pricing = 'priced') | max(m.rehearsed = 0 AND m.pricing = 'partly') * 2
                | max(m.rehearsed = 0 AND m.pricing = 'unpriced') * 4 | max(m.rehearsed = 1) * 8
            FROM model_calls AS m
            WHERE m.execution_id = new.id), 0))
    ON CONFLICT (agent, day, model) DO UPDATE SET
        executions = executions + 1,
        completed = completed + excluded.completed,
        failed = failed + excluded.failed,
        cancelled = cancelled + excluded.cancelled,
        turns = turns + excluded.turns,
        tool_calls = tool_calls + excluded.tool_calls,
        tokens = tokens + excluded.tokens,
        cost_usd = cost_usd + excluded.cost_usd,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens,
        cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
        seconds = seconds + excluded.seconds,
        price_kinds = price_kinds | excluded.price_kinds;
END;

-- Of all executions, open ones included.
DROP VIEW daily_usage;

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
    SELECT agent, day, model, executions, completed, failed, cancelled, turns, tool_calls, tokens, cost_usd FROM daily_totals
    UNION ALL
    SELECT e.agent, substr(e.created_at, 1, 10), coalesce(e.model, ''), 1, e.status = 'completed',
        e.status IN ('failed', 'timed_out'), e.status = 'cancelled', e.turns, e.tool_call_count,
        e.input_tokens + e.output_tokens + e.cache_read_tokens + e.cache_write_tokens, e.cost_usd
    FROM executions AS e
    WHERE e.finished_at IS NULL)
GROUP BY agent, day, model;
