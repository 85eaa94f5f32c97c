-- What a message of ours says, as data: why a conclusion was asked for, what was counted down, which block shows which report.
-- Texts can then be reworded: nothing is read out of them again.

ALTER TABLE messages ADD COLUMN data TEXT;
