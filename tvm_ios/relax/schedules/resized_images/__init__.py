"""Resized images by loops of ours: places known when compiled, and rows that are resized once."""
