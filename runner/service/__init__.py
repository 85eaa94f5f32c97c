"""The service: the dispatcher, the assembly of executions, and background work. Only this package imports all others."""
