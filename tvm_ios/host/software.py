"""Digests of the software that would compute here, read off its files: nothing of it is loaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

__all__ = ["code_digest", "file_digest", "file_facts", "package_versions", "tvm_facts"]

OURS = Path(__file__).resolve().parents[1]


def code_digest(root: Path = OURS) -> str:
    """Digest of all files of a package, of ours where omitted: each edit of a checkout counts."""
    digest = hashlib.sha256()
    for path in sorted(_files_in(root)):
        digest.update(os.fsencode(os.path.relpath(path, root)) + b"\0")
        digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()


def file_digest(path: str | Path) -> str:
    """Digest of a file's content."""
    with open(path, "rb") as file:  # noqa: PTH123 - of a thousand files, paths are the slow part
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_facts(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """Path, size and time of change of each file that is there: enough for gigabytes of code."""
    facts = []
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - as above
        except OSError:
            continue
        facts.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    return tuple(facts)


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of installed packages by name; empty for those that are missing."""
    return {name: _version(name) for name in names}


def tvm_facts() -> tuple[str, ...]:
    """Facts of the files of TVM that ``import tvm`` would load, in Python and in C++."""
    try:
        spec = find_spec("tvm")
    except (ImportError, ValueError):  # whoever imports it is told why
        return ()
    if spec is None or spec.origin is None:
        return ()
    package = Path(spec.origin).resolve().parent
    root = package.parents[1]
    folders = [package, package / "lib", root.parent, root / "build", root / "lib"]
    libraries = [path for folder in folders for path in sorted(folder.glob("libtvm*.so"))]
    python = hashlib.sha256("\n".join(file_facts(sorted(_files_in(package, ".py")))).encode())
    return (*file_facts(libraries), python.hexdigest())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _files_in(root: Path, suffix: str = "") -> Iterator[str]:
    """Files below a folder, but for those that Python has compiled."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (f"{folder}{os.sep}{name}" for name in names if name.endswith(suffix))
