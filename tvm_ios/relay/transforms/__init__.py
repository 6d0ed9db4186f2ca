"""Changes of a model before its operators are fused."""
