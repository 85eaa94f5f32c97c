"""loop: model turn → tool calls → results → turn; with a catalogue of agents it orchestrates."""
