"""Compiled models as files: exported, identified, loaded."""
