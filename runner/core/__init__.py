"""The execution tree: spawn, life, children, delivery, cancel and end of executions, and their facts."""
