"""A service that is told to stop while it is at work."""
