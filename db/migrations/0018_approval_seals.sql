-- A secret of each question: what a person types to allow a call without a terminal is made from it and from the arguments,
-- so that only a person who was shown it can know it. Queries read it as NULL.

ALTER TABLE approvals ADD COLUMN seal TEXT NOT NULL DEFAULT '';
