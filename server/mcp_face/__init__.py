"""The MCP face: what clients such as Claude Desktop see of Outrider. One set of answers, whatever the transport
and the era of the protocol.

Owns tools, resources, prompts, tasks and updates as the protocol wants them. Must not know: how a request got here, or how
an execution is run. Invariant: nothing a client does or fails to do ends an execution it did not ask to stop.
"""
