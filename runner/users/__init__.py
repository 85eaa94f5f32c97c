"""Users: who they are, what is remembered of them, and the tools that keep it."""
