"""cuDNN: convolutions, with bias and ReLU, on a GPU of NVIDIA."""
