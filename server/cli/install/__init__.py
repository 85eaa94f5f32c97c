"""`outrider install`: the MCP clients it knows, and the entry it writes into their files."""
