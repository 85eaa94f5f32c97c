"""Facts and their commit: rows, events and log lines come from one fact; watchers follow the events of a tree."""
