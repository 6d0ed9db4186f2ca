"""A GPU and its driver, which operator libraries and executors on streams share."""
