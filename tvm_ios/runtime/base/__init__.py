"""Kernels, arguments, memory and inputs, as executors on CPUs and on GPUs share them."""
