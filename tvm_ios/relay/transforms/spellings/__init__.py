"""Rewriting of patterns that importers write in several ways, before layouts are chosen."""
