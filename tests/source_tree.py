"""The package's source files, each parsed once: tests of the tree ask for most of them often."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))
