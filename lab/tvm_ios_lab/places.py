"""Folders of the checkout that the lab lies in, and the search path of its programs."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["LAB", "RESULTS", "ROOT", "python_path"]

LAB = Path(__file__).resolve().parents[1]
"""Folder of this distribution: code, tests, records of tuning and results."""
ROOT = LAB.parent
"""Folder of the checkout, which holds ``tvm_ios`` and ``lab``."""
RESULTS = LAB / "results"
"""Folder of stored measurements."""


def python_path(before: str | None = None) -> str:
    """``PYTHONPATH`` of an interpreter that has to find the lab and the library.

    Parameters
    ----------
    before
        Folders to be searched after them.
    """
    return os.pathsep.join(filter(None, [str(ROOT), str(LAB), before]))
