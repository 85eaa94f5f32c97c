"""Workspaces: files below declared folders, and the tools that read and write them."""
