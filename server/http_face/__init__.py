"""The HTTP face: the checks before every route, and the socket.

Owns access control (Host, Origin, tokens), the limits of a request, and listening. Must not know: executions, or the
answers of the routes. Invariant: no handler ever sees an unchecked request.
"""
