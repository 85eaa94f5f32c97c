-- The trace context that a root was started with: a tree that another process resumes goes on in its trace.

ALTER TABLE executions ADD COLUMN trace_context TEXT;
