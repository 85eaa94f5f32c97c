"""The MCP face, as clients see it."""
