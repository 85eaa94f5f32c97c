"""Texts of a configuration: YAML with positions, variables, files beside it, templates, names and problems."""
