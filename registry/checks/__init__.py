"""Checks a document: shapes, names that must exist, and settings that must fit together."""
