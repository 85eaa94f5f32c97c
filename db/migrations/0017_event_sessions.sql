-- Each event says in which session its execution works.

ALTER TABLE events ADD COLUMN session_id TEXT;

UPDATE events
SET session_id = (SELECT executions.session_id FROM executions WHERE executions.id = events.execution_id);
