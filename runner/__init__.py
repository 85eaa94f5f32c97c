"""Executing agents: the tree of executions, its guard, its strategies, and the two seams to models and tools."""
