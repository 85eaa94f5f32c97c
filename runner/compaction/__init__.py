"""Compaction: show a model only part of a conversation that outgrows its context window."""
