"""The name under which Outrider starts: `outrider`, or `python -m outrider`. Its code is in the four packages beside it."""
