-- Whose money the budget of an execution was taken out of when it was dispatched.

ALTER TABLE executions ADD COLUMN budget_from_execution_id TEXT;
