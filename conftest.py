"""Tests of the library and of the lab share fixtures and take turns."""

from __future__ import annotations

pytest_plugins = ["tests.plugin"]
