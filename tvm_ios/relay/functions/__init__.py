"""What one fused function is: kind, cost, convolution, view, library calls."""
