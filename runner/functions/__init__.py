"""Agents that are Python functions: how they are found, what they are given, and how they are called."""
