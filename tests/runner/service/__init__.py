"""Tests of `runner/service`."""
