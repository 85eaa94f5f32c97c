"""Iterating: what an agent of the strategy `iterate` knows: decisions, records of tasks, the words for its components.

Must not know: executions, rows, and who runs what (`runner/strategies/iterate.py` does).
"""
