"""What developers and `make` call; none of it is in the wheel."""
