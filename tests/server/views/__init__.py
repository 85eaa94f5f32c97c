"""What the views answer about real executions."""
