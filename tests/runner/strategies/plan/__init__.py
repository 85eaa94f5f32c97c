"""Tests of `runner/strategies/plan`."""
