"""Facts on one fused function: kind, cost, convolution, view, library calls."""
