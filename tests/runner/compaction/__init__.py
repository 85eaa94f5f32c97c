"""Tests of `runner/compaction`."""
