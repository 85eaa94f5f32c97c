"""Tests of `runner/strategies/loop`."""
