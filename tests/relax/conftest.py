"""Tests of TVM with Relax, in a process of their own: ``TVM_IOS_TVM=path pytest tests/relax``.

A process has one TVM. ``make test`` runs pytest twice, and this folder in the second one only.
"""

from __future__ import annotations

import inspect
import sys
from importlib.util import find_spec

from tvm_ios.install.finder import has_relay

HERE = not has_relay(find_spec("tvm"))
"""True if the TVM of this process is one with Relax only."""


def _frames_of_a_test(context: int = 1) -> list[inspect.FrameInfo]:
    """``inspect.stack``, less pytest's own frames.

    TVMScript asks for it at each function, and half of its time went into sources of pytest.
    """
    frames, frame = [], sys._getframe(1)
    while frame is not None and "_pytest" not in frame.f_code.co_filename:
        told = inspect.getframeinfo(frame, context)
        frames.append(inspect.FrameInfo(frame, *told, positions=told.positions))
        frame = frame.f_back
    return frames


if HERE:
    inspect.stack = _frames_of_a_test
collect_ignore_glob = [] if HERE else ["*"]


def pytest_report_header() -> str | None:
    """Say in the head of a session that these tests are left out."""
    return None if HERE else "tests/relax: left out with this TVM; `TVM_IOS_TVM=path` runs them"
