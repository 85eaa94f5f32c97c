"""The terminal: options, exit codes, help pages, and what is read and written."""
