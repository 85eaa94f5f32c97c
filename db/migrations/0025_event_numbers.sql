-- The greatest number that an event had before it was deleted with its tree. It is not given again: a listener that goes on
-- from a number misses nothing.

CREATE TABLE event_numbers (last INTEGER NOT NULL PRIMARY KEY);
INSERT INTO event_numbers (last) VALUES (0);
