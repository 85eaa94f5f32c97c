"""Tests of dates and the date tools."""
