"""Tests of the pages and of what lies beside them."""
