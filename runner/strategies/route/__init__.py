"""route: a command goes by its rules, any other message by one classifier call."""
