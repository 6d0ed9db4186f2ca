"""Graphs matched by structure, and schedules that go from one to the other."""
