"""Plans as data: what a planner answered, what of it can be carried out, and what follows when a step has ended.

Pure: no rows, no model, no clock. `runner/strategies/plan.py` carries a plan out.
"""
