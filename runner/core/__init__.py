"""The execution tree: spawn, life, children, delivery, cancellation and end of executions, and the facts that record them."""
