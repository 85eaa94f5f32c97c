"""Commands: parsed once, matched by rules, carried out for work items."""
