"""Users: identity, profile, memory, and the memory tools."""
