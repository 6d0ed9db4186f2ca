"""Prices of Relax models."""
