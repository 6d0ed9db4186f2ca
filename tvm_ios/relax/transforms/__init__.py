"""Changes of a model in Relax before its kernels are fused."""
