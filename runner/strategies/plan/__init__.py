"""plan: a plan is made, checked, run step by step, revised, and composed into one answer."""
