"""The token that a client over HTTP has to know: a line in a file that only its owner may read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_ios.errors import JobError

__all__ = ["fresh_token", "read_token"]

_BYTES = 32
_FEWEST = 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def fresh_token(path: Path) -> Iterator[str]:
    """A new token, which lies in a file inside.

    Raises
    ------
    JobError
        If the file cannot be written.
    """
    token = secrets.token_urlsafe(_BYTES)
    try:
        # Never over a file that is there: it, or a link in its place, may be open to others.
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except OSError as error:
        raise JobError(
            f"cannot keep a token in {path}: {error.strerror}; make the folder writable, or bring "
            "a token of your own with --token-file"
        ) from error
    try:
        yield token
    finally:
        path.unlink(missing_ok=True)


def read_token(path: Path) -> str:
    """The token in a file.

    Raises
    ------
    JobError
        If the file cannot be read, others may read it, or it holds no token.
    """
    try:
        with path.open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(
            f"cannot read a token from {path}: {error}; a daemon that serves over HTTP says where "
            "its own lies"
        ) from error
    if mode & _OTHERS:
        raise JobError(f"others may use {path}, its mode is {mode:o}; run chmod 600 {path}")
    if len(token) < _FEWEST or not token.isprintable() or " " in token:
        raise JobError(
            f"{path} holds {len(token)} characters and no token; give {_FEWEST} or more on one "
            "line, without spaces: openssl rand -hex 32"
        )
    return token
