"""Runs started from this terminal: their arguments, the live tree, approvals in place and the chat."""
