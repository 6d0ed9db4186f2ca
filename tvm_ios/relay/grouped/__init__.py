"""Depthwise and grouped convolutions on CPUs, by loops of our own."""
