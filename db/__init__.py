"""Persistence: tables, status machine, group-commit writer, reads, read-only SQL. The only place that knows SQL."""
