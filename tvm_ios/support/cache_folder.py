"""The cache folder, whose code this process runs: nobody else may have put it there."""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from tvm_ios.errors import HostError

__all__ = ["cache_directory", "own_folder", "require_own"]

_ROOT = 0
"""Root's files are trusted as ours are: root could exchange the interpreter just as well."""


def cache_directory() -> Path:
    """The folder of compiled C files and kernels and, by default, of profile databases.

    It is ``$TVM_IOS_CACHE_DIR``, else ``tvm-ios`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
    """
    explicit = os.environ.get("TVM_IOS_CACHE_DIR")
    if explicit:
        return own_folder(Path(explicit))
    return own_folder(Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "tvm-ios")


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise HostError(
            "this user has no home directory for the cache; set TVM_IOS_CACHE_DIR, or HOME, to a "
            "folder you can write"
        ) from error


def own_folder(path: Path) -> Path:
    """A folder that nobody else may write to, made where it is missing.

    Where it cannot be made, whoever writes to it finds out why.
    """
    with suppress(OSError):
        _make(path)
    require_own(path)
    return path


def require_own(path: Path) -> None:
    """Check that nobody else may change a file or folder; one that is missing passes."""
    try:
        link, found = path.lstat(), path.stat()
    except OSError:
        return
    # The owner of a link counts as well: that user may let it point to another file.
    foreign = {link.st_uid, found.st_uid} - {os.geteuid(), _ROOT}
    if not foreign and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    owner, mode = max(foreign, default=found.st_uid), stat.S_IMODE(found.st_mode)
    whole = path if path.is_dir() else path.parent  # where one file is such, others are
    mend = "" if foreign else f"chmod -R go-w {shlex.quote(str(whole))} if you trust them, else "
    raise HostError(
        f"{path} belongs to user {owner} and has mode {mode:04o}, so others may have put code into "
        f"it that you would run; {mend}set TVM_IOS_CACHE_DIR to a new folder of yours"
    )


def _make(path: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone."""
    if not path.is_dir():
        _make(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
