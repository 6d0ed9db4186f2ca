"""Progress, time budgets, the C compiler, and strict reading of values: tools of every room."""
