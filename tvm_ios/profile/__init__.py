"""Prices of stages, searches with them, and choices between whole networks."""
