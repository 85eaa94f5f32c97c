"""The specs: one module for each section of the configuration, with its entry as written and its frozen spec."""
