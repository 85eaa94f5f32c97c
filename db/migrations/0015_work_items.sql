-- Work items: what there is to do, numbered on their board. Numbers only grow; what was added by an execution stays when
-- that execution is deleted.

CREATE TABLE work_items (
    board TEXT NOT NULL,
    number INTEGER NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    language TEXT,
    complexity TEXT,
    plan TEXT,
    depends_on TEXT NOT NULL,
    artifacts TEXT NOT NULL,
    execution_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (board, number)
);

CREATE INDEX work_items_of_execution ON work_items (execution_id, title);
