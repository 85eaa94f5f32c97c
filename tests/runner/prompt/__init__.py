"""Tests of `runner/prompt`."""
