"""Agents that are Python functions: how they are found, called, and given their arguments."""
