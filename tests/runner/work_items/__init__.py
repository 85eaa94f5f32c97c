"""Tests of work items."""
