"""Libraries that compute operators are known by their protocol: one module names them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.source_tree import tree_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tvm_ios"
LIBRARIES = PACKAGE / "runtime" / "libraries"
FOLDERS = sorted(path.parent.name for path in LIBRARIES.glob("*/__init__.py"))
REGISTRATION = LIBRARIES / "known.py"
FILES = sorted(PACKAGE.rglob("*.py"))
KNOWS_NO_LIBRARY = [
    *sorted((PACKAGE / "runtime").glob("*.py")),
    *(LIBRARIES / name for name in ("protocol.py", "open_libraries.py", "placed_calls.py")),
    PACKAGE / "relay" / "functions" / "fused_function.py",
    PACKAGE / "compile" / "model.py",
    *(PACKAGE / "profile").glob("*.py"),
]
NATIVE = sorted(
    source
    for folder in ("base", "cuda")
    for source in (PACKAGE / "runtime" / folder / "native").iterdir()
)


def imported_modules(path):
    """Every module a file imports, wherever in it, types included."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_are_libraries():
    assert "cudnn" in FOLDERS


def imports_of_libraries():
    """Of every file: its path, the library in whose folder it is, and one that it imports."""
    for path in FILES:
        own = next((each for each in FOLDERS if (LIBRARIES / each) in path.parents), None)
        for module in imported_modules(path):
            for folder in FOLDERS:
                if f"{module}.".startswith(f"tvm_ios.runtime.libraries.{folder}."):
                    yield path, own, folder


def test_only_the_registration_and_itself_import_a_library():
    found = list(imports_of_libraries())
    registered = {folder for path, _, folder in found if path == REGISTRATION}
    assert registered == set(FOLDERS)
    assert [each for each in found if each[0] != REGISTRATION and each[1] != each[2]] == []


def _names(path):
    """Identifiers and strings of code; comments and docstrings may give examples."""
    tree = tree_of(path)
    texts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Constant) and id(node) not in texts:
            yield str(node.value)


@pytest.mark.parametrize("path", KNOWS_NO_LIBRARY, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_executors_plans_and_prices_name_no_library(path):
    names = list(_names(path))
    assert [name for name in names if any(folder in name.lower() for folder in FOLDERS)] == []


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_native_code_of_executors_names_no_library(path):
    text = path.read_text(encoding="utf-8").lower()
    assert not any(folder in text for folder in FOLDERS)
