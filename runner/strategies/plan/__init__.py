"""plan: a plan is made, checked, carried out step by step, revised, and composed into one answer."""
