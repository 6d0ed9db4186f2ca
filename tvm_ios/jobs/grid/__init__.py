"""Grids of tuning runs: lists of values, their product, a job for each, one table."""
