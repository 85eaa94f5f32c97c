"""Many listeners to the events of a served process, of which some do not read."""
