"""The faces of Outrider: command line and, around one composition root, whatever else speaks to people and programs."""
