"""Tests of the faces: the command line, and HTTP."""
