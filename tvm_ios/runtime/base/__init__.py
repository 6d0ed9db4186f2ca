"""Kernels, arguments, memory and inputs, which executors on CPUs and on GPUs share."""
