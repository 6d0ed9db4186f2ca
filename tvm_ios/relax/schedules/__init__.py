"""Loops of our own for kernels of Relax on CPUs, since TVM 0.27 has none to speak of."""
