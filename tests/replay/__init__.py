"""Tests of recordings: export, replay, comparison, forks."""
