"""Calls of ``tune`` that return their first model, and go on in a process of low priority."""
