"""What Outrider guarantees, measured: `make faults` prints the figures and writes `docs/reference/guarantees.md`."""
