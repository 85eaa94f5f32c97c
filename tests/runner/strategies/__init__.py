"""Tests of `runner/strategies`."""
