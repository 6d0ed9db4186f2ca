"""Cells of experiments and what is found in them: what measuring and tables both know."""
