"""oneDNN: convolutions and products, with the steps that follow them, on CPUs."""
