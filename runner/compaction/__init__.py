"""Compaction: a conversation that outgrows its model's context window is shown in part."""
