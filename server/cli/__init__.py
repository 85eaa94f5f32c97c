"""The command line: one file a command, over the composition root. Data on stdout, progress and notes on stderr."""
