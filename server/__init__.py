"""The faces of Outrider: the command line, MCP over stdio and HTTP, and the composition root below them."""
