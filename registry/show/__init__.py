"""Shows a configuration: the effective values with their provenance, and the JSON schema of the file."""
