"""Logs of tuners: read, mended, looked up."""
