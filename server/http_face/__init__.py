"""HTTP: what stands before every route, whatever it leads to.

Owns who may call (Host, Origin, tokens), what a request may cost, and listening on a socket. Must not know: executions, or
what a route answers. Invariant: no handler ever sees a request that was not checked.
"""
