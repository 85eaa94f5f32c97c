"""How agents behave: a package or a file for each strategy, none of which knows another."""
