"""A compiled model in a file, which several verbs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm

import tvm_ios


@pytest.fixture(scope="session")
def fork_library(fork: tuple[Any, dict[str, Any]], tmp_path_factory: Any) -> Path:
    """The file of a small network in sequential order, for one lane."""
    path = tmp_path_factory.mktemp("library") / "fork.so"
    # LLVM need not optimise what runs a few times.
    model = tvm_ios.compile_schedule(*fork, "llvm -opt-level=0", lanes=1)
    model.export_library(path)
    return path


@pytest.fixture
def model(fork: tuple[Any, dict[str, Any]], tmp_path: Path) -> Path:
    """A network of the user's, in two files: ``net.json`` and, beside it, ``net.params``."""
    mod, params = fork
    path = tmp_path / "net.json"
    path.write_text(tvm.ir.save_json(mod))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(params))
    return path
