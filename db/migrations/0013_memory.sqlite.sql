-- What is remembered of people: one row a fact, no fact twice for one of them, and the words of all facts to search in.
-- Numbers are never given out again: one that a model still has in mind must not come to mean another fact.

CREATE TABLE facts (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL,
    category TEXT NOT NULL,
    content TEXT NOT NULL,
    folded TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    source_execution_id TEXT NOT NULL
);

CREATE UNIQUE INDEX facts_once ON facts (user_id, folded);

-- Vowel signs belong to words in many scripts, so marks are letters here; accents of Latin letters do not matter.
CREATE VIRTUAL TABLE facts_text USING fts5 (
    folded, category, content = 'facts', content_rowid = 'id',
    tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);

CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
    INSERT INTO facts_text (rowid, folded, category) VALUES (new.id, new.folded, new.category);
END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
    INSERT INTO facts_text (facts_text, rowid, folded, category) VALUES ('delete', old.id, old.folded, old.category);
END;

CREATE TRIGGER facts_changed AFTER UPDATE ON facts BEGIN
    INSERT INTO facts_text (facts_text, rowid, folded, category) VALUES ('delete', old.id, old.folded, old.category);
    INSERT INTO facts_text (rowid, folded, category) VALUES (new.id, new.folded, new.category);
END;
