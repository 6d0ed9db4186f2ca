"""The report as one HTML page: what a model's story tells, with pictures, and nothing beside it."""
