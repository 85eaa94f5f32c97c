"""Tests of traces and metrics."""
