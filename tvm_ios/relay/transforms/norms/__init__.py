"""Norms: found in front of fusion, and written so that TVM computes them right."""
