"""Turning a story into data: the fleet of pods, then the samples, log lines and objects that follow from it.

Each module makes one kind of data and returns it; only `server.sre.record` writes files. Nothing here may use a clock
or any randomness but `dice`.
"""
