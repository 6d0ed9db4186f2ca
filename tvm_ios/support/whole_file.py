"""Files written as a whole: readers find the old file or all of the new one."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_ios.errors import ArtifactError

__all__ = [
    "make_output_folder",
    "sealed",
    "unsealed",
    "whole_file",
    "write_bytes",
    "write_text",
]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Context of a path to write; its file replaces another when the block ends without error.

    Folders are made, and others may write the same file, also on other machines. If the path is a
    link, the file behind it is replaced; a pipe or a terminal is written to directly.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the file: a move replaces it at once only within one file system. The name is random,
    # as machines that share a folder may give two processes the same number.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write all of a file or nothing, as :func:`whole_file` does.

    ``mode`` is that of a new file, less the umask; everybody may read and write where omitted.
    """
    with whole_file(path) as partial:
        if mode is not None:
            partial.touch(mode)
        partial.write_bytes(content)


def sealed(content: bytes) -> bytes:
    """Content and its digest, which linkers and loaders of libraries pass over."""
    return content + hashlib.sha256(content).digest()


def unsealed(whole: bytes) -> bytes | None:
    """Content that :func:`sealed` gave a digest; None where they do not fit."""
    content = whole[: -hashlib.sha256().digest_size]
    return content if whole == sealed(content) else None


def write_text(path: Path, text: str) -> None:
    """Write all of a text file or nothing, as :func:`whole_file` does."""
    try:
        write_bytes(path, text.encode())
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another place") from error


def make_output_folder(folder: Path) -> None:
    """Make the folder of a command's files, before the work whose results go there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArtifactError(
            f"cannot write to {folder}: {error}; choose another --output"
        ) from error
