"""A file written as a whole: readers find what it was before, or all of the new one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tvm_ios.errors import ArtifactError

__all__ = ["write_bytes", "write_text"]


def write_bytes(path: Path, content: bytes) -> None:
    """Write all of a file or nothing; its folders are made, and others may write it, too.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write all of a text file or nothing, as :func:`write_bytes` does.

    Raises
    ------
    ArtifactError
        If it cannot be written.
    """
    try:
        write_bytes(path, text.encode())
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another place") from error
