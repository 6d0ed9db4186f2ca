"""Changes of quantised models, before and after fusing."""
