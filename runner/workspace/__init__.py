"""Workspaces: files in declared folders, and the tools that read and write them."""
