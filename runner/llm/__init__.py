"""The LLM seam: one protocol, two adapters (anthropic, rehearsal). They know nothing of tools, rows or executions."""
