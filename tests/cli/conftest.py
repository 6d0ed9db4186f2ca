"""A compiled model in a file, which several verbs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tvm_ios


@pytest.fixture(scope="session")
def fork_library(fork: tuple[Any, dict[str, Any]], tmp_path_factory: Any) -> Path:
    """The file of a small network in sequential order, for one lane."""
    path = tmp_path_factory.mktemp("library") / "fork.so"
    # LLVM need not optimise what runs a few times.
    model = tvm_ios.compile_schedule(*fork, "llvm -opt-level=0", lanes=1)
    model.export_library(path)
    return path
