"""oneDNN: convolutions and products, with what follows them, on CPUs."""
