"""The official conformance suite against the real face, and the fixtures it wants to find there."""
