"""Replay: the recording of an ended tree, and running the tree again from it."""
