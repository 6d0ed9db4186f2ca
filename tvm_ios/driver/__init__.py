"""The calls of users and their options: from a model to a schedule that runs."""
