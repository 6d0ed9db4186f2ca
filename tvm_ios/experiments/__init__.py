"""Comparisons of whole networks, behind ``demo`` and ``bench``."""
