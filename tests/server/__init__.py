"""Tests of the faces: the command line."""
