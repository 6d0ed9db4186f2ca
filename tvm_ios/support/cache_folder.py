"""The cache folder, whose code this process runs: nobody else may have put it there.

Parts of it stay below a number of bytes: what was not used for longest goes.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from tvm_ios.errors import HostError

__all__ = ["cache_directory", "own_folder", "require_own", "trim_folder"]

_ROOT = 0
"""Root's files are trusted as ours are: root could exchange the interpreter just as well."""
KEPT_SHARE = 0.75
"""Share of the bytes that a cut leaves, so that not every later entry makes another cut."""


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


def trim_folder(folder: Path, most_bytes: int) -> int:
    """Drop the oldest entries of a folder while their sum is too large; return their number.

    An entry is a file, or a folder that a killed writer left. Its age is that of its last change,
    so readers touch what they use: many disks do not keep the time of the last access.
    """
    entries = []
    for path in folder.glob("*"):
        with suppress(OSError):  # another process dropped it
            entries.append((path.stat().st_mtime_ns, _size_bytes(path), path))
    size = sum(entry[1] for entry in entries)
    if size <= most_bytes:
        return 0
    dropped = 0
    for _, size_of_one, path in sorted(entries):
        if size <= KEPT_SHARE * most_bytes:
            break
        with suppress(OSError):
            _remove(path)
        size -= size_of_one
        dropped += 1
    return dropped


def _size_bytes(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _make(path: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone."""
    if not path.is_dir():
        _make(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
