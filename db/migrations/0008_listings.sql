-- Executions newest first, by whose they are, how they stand, who runs and whether anybody started them: ids sort by time.

CREATE INDEX executions_of_principal ON executions (principal, id) WHERE principal IS NOT NULL;

CREATE INDEX executions_in_status ON executions (status, id);

CREATE INDEX executions_of_agent ON executions (agent, id);

CREATE INDEX executions_roots ON executions (parent_execution_id, id) WHERE parent_execution_id IS NULL;
