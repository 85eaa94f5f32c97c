"""Tests of what stands before every route."""
