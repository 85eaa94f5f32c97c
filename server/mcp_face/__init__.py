"""The MCP face: tools, resources, prompts, tasks and updates, the same for every transport and era of the protocol.

Must not know: the transport of a request, or how an execution runs. Invariant: only a request to stop an execution stops
it; no other act or failure of a client does.
"""
