"""Changes of products of matrices: their kind, their rows, and the steps behind them."""
