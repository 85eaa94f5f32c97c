"""Tests of `runner/core`."""
