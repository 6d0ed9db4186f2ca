"""Execution plans: made from a graph of kernels, ordered, given memory, verified. No TVM."""
