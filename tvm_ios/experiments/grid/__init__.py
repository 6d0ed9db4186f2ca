"""Grids of tuning runs: lists of values, their product, a process for each, one table."""
