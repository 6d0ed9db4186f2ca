"""Attention: found in front of fusion, and written so that TVM compiles it."""
