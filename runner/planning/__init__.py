"""What a plan is made of: its blueprint, its versions, its course, the words its agents are given, the answer it ends in.

`runner/strategies/plan.py` puts these together. Only `drafting`, `answering` and `progress` know that steps are executions;
the rest is pure.
"""
