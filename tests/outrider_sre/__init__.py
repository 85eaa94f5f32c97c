"""Tests of the packaged SRE example."""
