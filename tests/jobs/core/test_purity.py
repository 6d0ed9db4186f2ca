"""The core reads no clock, draws no chance and touches nothing outside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tvm_ios.jobs.core

FILES = sorted(Path(tvm_ios.jobs.core.__file__).parent.glob("*.py"))
ALLOWED = {
    "__future__",
    "collections",
    "dataclasses",
    "enum",
    "heapq",
    "itertools",
    "tvm_ios",
    "typing",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_the_core_imports_nothing_that_could_do_anything(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        assert {name.split(".")[0] for name in names} <= ALLOWED
        ours = [name for name in names if name.startswith("tvm_ios.")]
        assert all(
            name.startswith("tvm_ios.jobs.core") or name in ("tvm_ios.errors", GATE)
            for name in ours
        ), ours


GATE = "tvm_ios.support.stage_gate"
