"""A build in bfloat16: which values are, how far off results are, and whether it is faster."""
