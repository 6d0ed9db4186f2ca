"""Tests of TVM with Relax, in a process of their own: ``TVM_IOS_TVM=path pytest tests/relax``.

A process has one TVM. ``make test`` runs pytest twice, and this folder in the second one only.
"""

from __future__ import annotations

from importlib.util import find_spec

from tvm_ios.install.finder import has_relay

HERE = not has_relay(find_spec("tvm"))
"""True if the TVM of this process is one with Relax only."""

collect_ignore_glob = [] if HERE else ["*"]


def pytest_report_header() -> str | None:
    """Say in the head of a session that these tests are left out."""
    return None if HERE else "tests/relax: left out with this TVM; `TVM_IOS_TVM=path` runs them"
