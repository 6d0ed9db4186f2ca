"""Prices without a device: an analytical model of GPUs. No TVM."""
