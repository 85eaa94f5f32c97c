"""The tool seam: one protocol; upstream MCP servers, built-in tools, and the composite that merges them."""
