"""Examples to read, to run and to copy; none of it is installed with Outrider."""
