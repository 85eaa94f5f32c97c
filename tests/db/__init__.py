"""Tests of the store: schema, writer, endings, views, reads, read-only SQL, several processes on one file."""
