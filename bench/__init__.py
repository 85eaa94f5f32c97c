"""What Outrider costs: Outrider and bare loops do the same work, with a fake model that costs nothing.

Owns: the work, the floors, the measures and the tables. Must not know: Outrider beyond its public interfaces, and those in
`bench.contestant` alone. Invariant: a figure counts only if every sub-agent's result came back to the supervisor.
"""
