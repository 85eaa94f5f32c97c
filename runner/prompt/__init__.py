"""What a model is told: system prompt, user parts, files, deliveries, and reading back what was cut."""
