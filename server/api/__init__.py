"""The HTTP API: what a person or a program looks at and does, as JSON, by the same caller as over MCP."""
