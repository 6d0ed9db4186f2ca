"""Races of whole models: compiled files against each other, and ours against stock TVM."""
