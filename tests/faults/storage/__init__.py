"""Storage that fails under a running service."""
