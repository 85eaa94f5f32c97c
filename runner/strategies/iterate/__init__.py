"""iterate: planner → worker → … → completer, with compressed state."""
