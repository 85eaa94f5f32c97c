"""Tests of the tool seam."""
