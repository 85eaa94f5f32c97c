"""Money and tokens: budgets, the accounts they draw on, and estimates of what a call costs. Knows no execution."""
