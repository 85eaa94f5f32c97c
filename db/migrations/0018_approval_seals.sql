-- A secret of each question: what a person types to allow a call without a terminal is made from it and from the arguments,
-- so that nobody can know it who was not shown it. Queries read it as NULL.

ALTER TABLE approvals ADD COLUMN seal TEXT NOT NULL DEFAULT '';
