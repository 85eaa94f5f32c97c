"""The faces of Outrider: the command line and MCP over stdio and HTTP, and the composition root below them."""
