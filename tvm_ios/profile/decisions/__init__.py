"""Decisions of other tunings: found again in this model, and raced."""
