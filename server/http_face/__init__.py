"""The HTTP face: the checks before every route, and the socket.

Owns who may call (Host, Origin, tokens), the limits of a request, and listening. Must not know: executions, or what a route
answers. Invariant: no handler ever sees a request that was not checked.
"""
