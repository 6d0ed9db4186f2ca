"""A text file written as a whole: readers find what it was before, or all of the new one."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.errors import ArtifactError

__all__ = ["write_text"]


def write_text(path: Path, text: str) -> None:
    """Write all of a file or nothing; its folders are made.

    Raises
    ------
    ArtifactError
        If it cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another place") from error
