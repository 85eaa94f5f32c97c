"""Rows by subject: the writes and reads of executions, transcripts, approvals, plans, users and the rest."""
