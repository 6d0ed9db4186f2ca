"""Libraries that compute operators are known by their protocol: one module names them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tvm_ios"
LIBRARIES = PACKAGE / "runtime" / "libraries"
FOLDERS = sorted(path.parent.name for path in LIBRARIES.glob("*/__init__.py"))
REGISTRATION = LIBRARIES / "known.py"
FILES = sorted(PACKAGE.rglob("*.py"))
KNOWS_NO_LIBRARY = [
    *sorted((PACKAGE / "runtime").glob("*.py")),
    *(LIBRARIES / name for name in ("protocol.py", "open_libraries.py")),
    *(PACKAGE / "relay" / "functions" / name for name in ("fused_function.py", "library_calls.py")),
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_are_libraries():
    assert "cudnn" in FOLDERS


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_registration_imports_a_library(path):
    if path == REGISTRATION:
        return
    for module in imported_modules(path):
        for folder in FOLDERS:
            named = f"tvm_ios.runtime.libraries.{folder}"
            inside = (LIBRARIES / folder) in path.parents
            assert inside or not f"{module}.".startswith(f"{named}."), f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_libraries_do_not_import_each_other(path):
    own = [folder for folder in FOLDERS if (LIBRARIES / folder) in path.parents]
    for module in imported_modules(path) if own else ():
        others = [f"tvm_ios.runtime.libraries.{folder}." for folder in FOLDERS if folder not in own]
        assert not any(f"{module}.".startswith(other) for other in others)


def _names(path):
    """Identifiers and strings of code; comments and docstrings may give examples."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
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
    for name in _names(path):
        for folder in FOLDERS:
            assert folder not in name.lower(), f"{path} has {name!r}"


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
def test_native_code_of_executors_names_no_library(path):
    text = path.read_text(encoding="utf-8").lower()
    assert not any(folder in text for folder in FOLDERS)
