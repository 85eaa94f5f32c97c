"""Tests of workspaces and their tools."""
