"""Tests of `runner/record`."""
