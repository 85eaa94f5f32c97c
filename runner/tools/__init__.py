"""The tool seam: one protocol; upstream MCP servers, Outrider's own tools, and the composite that merges them."""
