"""What is checked before a run starts, and what `outrider doctor` checks."""
