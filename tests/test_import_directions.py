"""Imports point one way, and the TVM-free rooms are free of TVM.

The order of the rooms stands in ``docs/architecture.md``, and nowhere else: a room imports itself
and rooms that come before it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.source_tree import tree_of

PROJECT = Path(__file__).resolve().parent.parent
ROOT = PROJECT / "tvm_ios"
LAB = PROJECT / "lab" / "tvm_ios_lab"
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for root in (ROOT, LAB)
    for path in sorted(root.rglob("*.py"))
}
ROOMS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
ARCHITECTURE = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _ranks(order):
    """Rank of each name in an order; those of one rank do not import each other."""
    ranked = enumerate(order.split("▶"))
    return {name: rank for rank, names in ranked for name in re.findall(r"[a-z]+", names)}


RANKS, RUNTIME_RANKS = map(
    _ranks,
    re.findall(r"```\n(.*?)```", ARCHITECTURE.split("## Import directions")[1], re.DOTALL)[:2],
)
"""Ranks of the rooms, and of the folders of the runtime."""
TVM_FREE = {"errors", "support", "core", "measure", "cost", "plan", "search", "report"}
RELAY_ROOMS = {"relay", "models", "passes", "tuning", "profile"}
RELAX_ROOMS = {"relax", "driver", "models"}
IN_ROOT = {"__init__", "__main__", "errors"}
MOST_FILES = 20


def _room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _module(path):
    return ".".join(["tvm_ios", *path.relative_to(ROOT).with_suffix("").parts])


@cache
def _imports(path):
    """Every module imported: at the top, inside a function, or for types alone."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative imports hide where they point"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _folder(module):
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def _folders_imported():
    """Pairs of folders of which the first imports the second, with a module of each."""
    pairs = {}
    for module, path in MODULES.items():
        for imported in _imports(path):
            target = imported if imported in MODULES else imported.rpartition(".")[0]
            if target in MODULES and _folder(target) != _folder(module):
                pairs[_folder(module), _folder(target)] = f"{module} imports {target}"
    return pairs


def test_every_room_has_a_place_in_the_order():
    assert sorted(RANKS) == sorted([*ROOMS, "errors"])


def test_the_package_root_holds_next_to_nothing():
    assert {path.stem for path in ROOT.glob("*.py")} == IN_ROOT


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=str)
def test_no_folder_is_a_heap(folder):
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_FILES, sorted(modules)


def _imports_of(package):
    """Of every file: its room, what it imports of a package, and the words for both."""
    for path in FILES:
        for imported in _imports(path):
            if imported.split(".")[0] == package:
                yield _room(_module(path)), imported, f"{_module(path)} imports {imported}"


def test_imports_point_down():
    imports = [each for each in _imports_of("tvm_ios") if each[0] in ROOMS]
    assert {room for room, *_ in imports} > {"relay", "driver", "cli"}
    upwards = [
        text
        for room, imported, text in imports
        if _room(imported) != room and RANKS[_room(imported)] >= RANKS[room]
    ]
    assert upwards == []


def test_imports_inside_the_runtime_point_down():
    folders = {path.parent.name for path in (ROOT / "runtime").glob("*/__init__.py")}
    assert sorted(RUNTIME_RANKS) == sorted(folders)
    inside = "tvm_ios.runtime."
    imports = [
        (module.split(".")[2], imported.split(".")[2], f"{module} imports {imported}")
        for module, path in MODULES.items()
        for imported in _imports(path)
        if module.startswith(inside) and imported.startswith(inside)
    ]
    assert {folder for folder, *_ in imports} >= {"libraries", "cpu", "cuda"}
    assert [
        text
        for folder, other, text in imports
        if other != folder and RUNTIME_RANKS[other] >= RUNTIME_RANKS[folder]
    ] == []


def test_no_folder_imports_back():
    """A folder may be known to the one that it lies in, which names what is in it."""
    pairs = _folders_imported()
    assert ("tvm_ios.driver", "tvm_ios.report") in pairs
    assert [
        (text, pairs[other, one])
        for (one, other), text in pairs.items()
        if (other, one) in pairs and not _nested(one, other) and not _nested(other, one)
    ] == []


def _nested(inner, outer):
    return f"{inner}.".startswith(f"{outer}.")


def test_the_library_never_imports_the_lab():
    assert [text for _, imported, text in _imports_of("tvm_ios_lab")] == []
    assert "tvm_ios_lab.cli.bench" in MODULES


def test_tvm_stays_in_its_rooms():
    imports = list(_imports_of("tvm"))
    assert {room for room, *_ in imports} > {"relay", "compile"}
    assert [text for room, _, text in imports if room in TVM_FREE] == []
    # What relay.build returns is a type that others annotate, and import for types alone.
    factory = "tvm.relay.backend.executor_factory.GraphExecutorFactoryModule"
    of_relay = [each for each in imports if each[1].startswith("tvm.relay") and each[1] != factory]
    assert [text for room, _, text in of_relay if room not in RELAY_ROOMS] == []
    of_relax = [each for each in imports if each[1].startswith(("tvm.relax", "tvm.s_tir"))]
    assert [text for room, _, text in of_relax if room not in RELAX_ROOMS] == []


@pytest.mark.parametrize(
    "module",
    [
        "tvm_ios",
        "tvm_ios.support",
        "tvm_ios.core",
        "tvm_ios.measure",
        "tvm_ios.cost",
        "tvm_ios_lab.analytical",
        "tvm_ios.plan",
        "tvm_ios.search",
        "tvm_ios.driver.config",
        "tvm_ios.cli.grid",
        "tvm_ios.jobs.core",
        "tvm_ios_lab.jobs.simulation",
        "tvm_ios.jobs.daemon",
        "tvm_ios.jobs.local",
        "tvm_ios.cli.jobs",
        "tvm_ios_lab.cli.solve",
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
    tree = tree_of(ROOT / room / "__init__.py")
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
