"""File of lines that several processes append to, and that one of them may replace.

A writer holds an flock on the file itself. After waiting for it he checks that the file still has
its name; if another one was put in its place, he opens that. So a line goes to the file that
everybody sees, or to none, and there are no lock files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["append_bytes", "end_line", "locked", "make_folder", "read_on", "replace_file"]

CHUNK_BYTES = 1 << 20
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextlib.contextmanager
def locked(path: Path, flags: int) -> Iterator[int]:
    """Descriptor, locked by us alone, of the file that has a name.

    It is opened with flags of ``os.open``; reading gets writing, too, where that is allowed.
    """
    while True:
        descriptor = _opened(path, flags)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _bears_name(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make the folders that a file lies in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # it would be taken for the file itself
        raise NotADirectoryError(errno.ENOTDIR, f"{path.parent} is no folder") from error


def append_bytes(path: Path, data: bytes) -> None:
    """Append whole lines in one write; half a line at the end of the file stays alone.

    A missing file is made, with its folders.
    """
    make_folder(path)
    with locked(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        _write(descriptor, b"\n" + data if torn else data)


def end_line(path: Path) -> None:
    """Add the newline that is missing at the end of a file; the caller holds the lock."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        _write(descriptor, b"\n")
    finally:
        os.close(descriptor)


def replace_file(path: Path, descriptor: int, data: bytes) -> None:
    """Replace a locked file by one with other content, which nobody ever sees half done.

    The descriptor stands at the end of what the caller has read. Lines behind that were written
    without the lock, as by stock TVM, and go to the end of the new file. A link stays a link.
    """
    place = path.resolve()
    new_name = place.with_name(f".{place.name}.mending")
    new = os.open(new_name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        # The lock comes before the name: whoever opens the new file waits until late lines are in.
        fcntl.flock(new, fcntl.LOCK_EX)
        os.fchmod(new, stat.S_IMODE(os.fstat(descriptor).st_mode))
        _write(new, data)
        # The data are on the disk before the file has its name, or a power cut could empty the log.
        os.fsync(new)
        os.replace(new_name, place)
        _write(new, read_on(descriptor))
    except BaseException:
        new_name.unlink(missing_ok=True)
        raise
    finally:
        os.close(new)


def read_on(descriptor: int) -> bytes:
    """Bytes from the descriptor's position to the end of the file."""
    return b"".join(iter(lambda: os.read(descriptor, CHUNK_BYTES), b""))


def _opened(path: Path, flags: int) -> int:
    if flags & os.O_ACCMODE == os.O_RDONLY:
        try:
            return os.open(path, flags | os.O_RDWR, 0o666)  # NFS locks for nobody else
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
    return os.open(path, flags, 0o666)


def _bears_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write(descriptor: int, data: bytes) -> None:
    """Write in one call, so that lines of several processes do not mix, with or without locks."""
    written = os.write(descriptor, data) if data else 0
    if written < len(data):
        raise OSError(f"only {written} of {len(data)} bytes could be written")
