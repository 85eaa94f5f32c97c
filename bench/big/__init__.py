"""Questions of the faces to a database of a million executions: `python -m bench.big`."""
