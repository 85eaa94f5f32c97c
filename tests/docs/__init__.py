"""The documents: what they show is what happens."""
