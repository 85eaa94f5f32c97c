"""Tests of `runner/strategies/iterate`."""
