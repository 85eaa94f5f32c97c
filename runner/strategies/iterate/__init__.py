"""iterate: planner → worker → … → completer, with the state kept small."""
