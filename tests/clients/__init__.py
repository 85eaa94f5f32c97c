"""Clients that others wrote, before the real `outrider serve`."""
