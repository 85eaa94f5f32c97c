"""The prompts of a model: system prompt, user parts, files, deliveries, and reading back cut texts."""
