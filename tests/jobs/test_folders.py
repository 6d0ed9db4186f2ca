"""Folders of jobs import one way."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from tests.source_tree import tree_of

PROJECT = Path(__file__).resolve().parents[2]
JOBS = PROJECT / "tvm_ios" / "jobs"


def test_no_folder_imports_back_into_one_that_imports_it():
    imports = {}
    for path in JOBS.rglob("*.py"):
        found = imports.setdefault(path.parent, set())
        for node in ast.walk(tree_of(path)):  # those under TYPE_CHECKING and in functions, too
            if isinstance(node, ast.ImportFrom) and node.module.startswith("tvm_ios.jobs."):
                module = PROJECT / node.module.replace(".", "/")
                found.add(module if module.is_dir() else module.parent)
        found.discard(path.parent)
    assert {JOBS, JOBS / "core", JOBS / "local"} <= imports[JOBS / "ray"]
    tuple(TopologicalSorter(imports).static_order())  # raises where there is a circle
