"""The calls that users make, and their options: from a model to a schedule that runs."""
