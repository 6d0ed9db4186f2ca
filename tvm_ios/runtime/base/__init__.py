"""What executors on CPUs and GPUs share: kernels, arguments, memory, inputs."""
