"""Crashes: processes killed at any moment, and what must be true of their rows afterwards."""
