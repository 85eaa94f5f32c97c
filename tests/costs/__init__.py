"""What a unit of work costs, as counts that are the same on every machine: a count can be a limit, a time cannot.

Owns: the scenarios, the counting and the limits. `python -m tests.costs` prints every count beside its limit.
"""
