"""`outrider show`, and how executions, trees, tables and reports are presented."""
