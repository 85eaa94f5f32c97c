"""Tests of functions as agents."""
