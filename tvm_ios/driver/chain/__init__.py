"""The chain of verbs from a model to a saved run: its steps, its runs, its service levels."""
