"""The execution tree: spawn, life, children, delivery, cancellation and end of executions, and their facts."""
