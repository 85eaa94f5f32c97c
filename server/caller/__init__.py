"""The caller behind every face: what it may see and do is the same over MCP, over the HTTP API and on the command line."""
