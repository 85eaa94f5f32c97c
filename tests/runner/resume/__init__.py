"""Tests of `runner/resume`."""
