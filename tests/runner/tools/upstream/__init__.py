"""Tests of upstream MCP servers."""
