"""Approvals: a person decides whether a gated tool call may run."""
