"""Tests of `runner/strategies/route`."""
