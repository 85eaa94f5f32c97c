"""Loads a configuration: from the file, or from a stored snapshot, to `Settings`."""
