"""Recorded scheduling problems, and the synthetic cost that prices them without a device."""
