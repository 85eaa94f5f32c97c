"""Tests of the LLM seam."""
