"""What is on the shelves, what to eat first, what to buy."""
