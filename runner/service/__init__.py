"""The service: the dispatcher, the assembly of executions, and what runs beside them. It alone knows every other room."""
