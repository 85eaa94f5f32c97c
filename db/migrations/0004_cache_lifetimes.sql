-- Prompts are cached for five minutes or for an hour, at different prices.

ALTER TABLE model_calls ADD COLUMN cache_write_1h_tokens INTEGER NOT NULL DEFAULT 0;
