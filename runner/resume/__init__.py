"""Resume: taking over the trees of processes that are gone, and restoring executions from their rows."""
