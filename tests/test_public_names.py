"""What is public is listed, sorted and there; importing the package costs nothing."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import tvm_ios
from tests.source_tree import tree_of

ROOT = Path(__file__).resolve().parent.parent / "tvm_ios"
PACKAGES = (
    "core",
    "cost",
    "devices",
    "driver",
    "host",
    "models",
    "passes",
    "plan",
    "relay",
    "report",
    "runtime",
    "search",
)
FILES = sorted(
    path for path in ROOT.rglob("*.py") if path.name not in ("__main__.py", "__init__.py")
)


def _name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _sort_key(name):
    """Constants, then classes, then the rest, each in natural order: the order ruff keeps."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]


def _declared(path):
    """``__all__`` of a file, None where it has none."""
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def _imported(path):
    """Names a package takes from its modules."""
    return [
        alias.asname or alias.name
        for node in tree_of(path).body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_package_offers_what_it_imports(package):
    path = ROOT / package / "__init__.py"
    # A package without names of its own is only the folder of its modules.
    public = _declared(path) or []
    assert sorted(public) == sorted(_imported(path))
    assert public == sorted(public, key=_sort_key)
    module = import_module(f"tvm_ios.{package}")
    assert [name for name in public if not hasattr(module, name)] == []


def test_every_module_lists_its_names():
    assert [_name(path) for path in FILES if _declared(path) is None] == []
    lists = {_name(path): _declared(path) for path in FILES}
    assert {n: names for n, names in lists.items() if not _is_sorted(names)} == {}


def _is_sorted(names):
    return names == sorted(set(names), key=_sort_key)


def _defined(path):
    """What a module defines or imports."""
    module_names = {
        name.id
        for node in tree_of(path).body
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module_names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            module_names.update(alias.asname or alias.name for alias in node.names)
    return module_names


def test_what_modules_list_is_there():
    missing = {_name(path): set(_declared(path) or ()) - _defined(path) for path in FILES}
    assert {name: names for name, names in missing.items() if names} == {}


def test_public_names_are_sorted_and_resolve():
    assert tvm_ios.__all__ == sorted(tvm_ios.__all__, key=_sort_key)
    for name in tvm_ios.__all__:
        found = getattr(tvm_ios, name)
        assert found.__name__ == name
        # The table of homes names the module that defines it, not one that passes it on.
        assert found.__module__ == tvm_ios._HOMES[name]


def test_table_of_homes_is_complete():
    assert sorted(tvm_ios._HOMES) == sorted(tvm_ios.__all__)
    assert set(tvm_ios.__all__) <= set(dir(tvm_ios))
    with pytest.raises(AttributeError, match="no attribute 'tuen'"):
        _ = tvm_ios.tuen


def test_import_alone_is_light(run_python, project_root):
    code = (
        "import sys\nbefore = set(sys.modules)\nimport tvm_ios\n"
        "print(sorted(name for name in set(sys.modules) - before\n"
        "             if name.startswith('tvm') or name.split('.')[0] in ('numpy', 'sqlite3')))"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert (done.returncode, done.stdout.strip()) == (0, "['tvm_ios']"), done.stderr
