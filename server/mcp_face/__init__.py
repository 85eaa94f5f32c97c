"""The MCP face: tools, resources, prompts, tasks and updates, the same for every transport and era of the protocol.

Must not know: how a request got here, or how an execution runs. Invariant: nothing a client does or fails to do ends an
execution it did not ask to stop.
"""
