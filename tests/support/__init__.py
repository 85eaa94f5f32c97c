"""Shared by several tests: marks, scripted models, real servers. It must contain no test and no fixture."""
