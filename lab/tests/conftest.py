"""Fixtures that tests of the lab share with tests of the library."""

from __future__ import annotations

from tests.cli.conftest import fork_library
from tests.report.conftest import comparison, graph, schedule

__all__ = ["comparison", "fork_library", "graph", "schedule"]
