"""Logs of tuners: reading, mending, and looking up records."""
