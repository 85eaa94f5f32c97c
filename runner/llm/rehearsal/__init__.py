"""Rehearsals: a model that plays written turns, routed by the structure of the transcript."""
