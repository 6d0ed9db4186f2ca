"""What compiling gives: a model's kernels, a schedule on them, and the executor that runs it."""
