"""Imports point one way, and the TVM-free rooms are free of TVM.

``errors, core -> cost -> search``; ``core -> plan -> runtime``; ``core -> host``; all of these ->
``relay`` -> ``passes, tuning`` -> ``driver`` -> ``cli``.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "tvm_ios"
FILES = sorted(ROOT.rglob("*.py"))

RANKS = {
    "errors": 0,
    "support": 1,
    "core": 1,
    "cost": 2,
    "host": 2,
    "install": 2,
    "plan": 2,
    "runtime": 3,
    "kernels": 3,
    "devices": 3,
    "search": 3,
    "progress": 3,
    "tune_report": 4,
    "report": 3,
    "relay": 4,
    "models": 4,
    "library_kernels": 5,
    "merge_surroundings": 5,
    "compiled": 6,
    "kernel_identity": 7,
    "stage_kernels": 8,
    "merge_prices": 8,
    "pricing": 9,
    "scheduling": 10,
    "build_choice": 11,
    "passes": 12,
    "tuning": 12,
    "driver": 13,
    "cli": 14,
}
"""A room imports itself and rooms of lower rank."""
TOP_RANK = 13
"""Every other module at the top of the package drives comparisons of whole networks."""
TVM_FREE = {"errors", "support", "core", "cost", "plan", "search", "report"}
STORED_CALLS = ("tvm_ios.runtime.libraries.known.", "tvm_ios.runtime.libraries.protocol.")
"""What a plan knows of calls of libraries; the one thing below that lies in a room above."""
RELAY_ROOMS = {"relay", "models", "passes", "tuning", "pricing"}


def _room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _module(path):
    return ".".join(["tvm_ios", *path.relative_to(ROOT).with_suffix("").parts])


def _is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _imports(path):
    """Every module imported at run time, whether at the top or inside a function."""
    pending = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide where they point"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending.extend(c for c in ast.iter_child_nodes(node) if not _is_type_checking(c))


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_imports_point_down(path):
    room = _room(_module(path))
    if path.name in ("__init__.py", "__main__.py") and path.parent == ROOT:
        return
    rank = RANKS.get(room, TOP_RANK)
    for imported in _imports(path):
        if imported.split(".")[0] != "tvm_ios":
            continue
        if room == "plan" and imported.startswith(STORED_CALLS):
            continue
        other = _room(imported)
        if other == room or (rank == TOP_RANK == RANKS.get(other, TOP_RANK)):
            continue
        assert RANKS.get(other, TOP_RANK) < rank, f"{_module(path)} imports {imported}"


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_tvm_stays_in_its_rooms(path):
    room = _room(_module(path))
    for imported in _imports(path):
        if imported.split(".")[0] != "tvm":
            continue
        assert room not in TVM_FREE, f"{_module(path)} imports {imported}"
        if imported.startswith("tvm.relay"):
            assert room in RELAY_ROOMS, f"{_module(path)} imports {imported}"


@pytest.mark.parametrize(
    "module",
    [
        "tvm_ios",
        "tvm_ios.core",
        "tvm_ios.cost",
        "tvm_ios.plan",
        "tvm_ios.search",
        "tvm_ios.driver.config",
        "tvm_ios.cli.solve",
        "tvm_ios.cli.tune",
    ],
)
def test_tvm_free_rooms_do_not_load_tvm(run_python, project_root, module):
    folder = project_root / "tvm_ios" / module.removeprefix("tvm_ios").lstrip(".").replace(".", "/")
    modules = [module]
    if folder.is_dir() and module != "tvm_ios":
        modules += [f"{module}.{p.stem}" for p in folder.glob("*.py") if p.stem != "__init__"]
    code = "\n".join(f"import {name}" for name in modules)
    code += "\nimport sys\nprint(sorted(n for n in sys.modules if n.split('.')[0] == 'tvm'))"
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("room", ["core", "search"])
def test_rooms_say_what_is_public(room):
    tree = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    imported = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]
    assert sorted(public) == sorted(imported)
