"""The desk: six small MCP servers with stored state, for examples about a person's day. They know nothing of Outrider."""
