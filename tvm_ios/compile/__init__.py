"""Compiled models: kernels, a schedule on them, and the executor that runs it."""
