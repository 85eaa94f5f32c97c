"""Work items: a numbered board that commands and functions write to."""
