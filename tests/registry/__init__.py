"""Tests of `registry`: configurations as people write them, loaded from real files."""
