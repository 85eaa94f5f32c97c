"""Resume: take over the trees of dead processes and restore executions from their rows."""
