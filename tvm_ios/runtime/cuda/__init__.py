"""Models and stages on streams of an NVIDIA GPU."""
