"""Upstream MCP servers: supervised connections, calls, transports with caps."""
