"""Executions that go on where another process left them."""
