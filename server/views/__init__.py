"""Read models behind the HTTP API, the export and the page: what a person or a program is told about executions."""
