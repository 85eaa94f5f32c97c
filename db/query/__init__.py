"""Read-only SQL for people and models, run by a confined process."""
