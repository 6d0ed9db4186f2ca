"""Cache of compiled kernels on disk: a file each, bounded, safe for many writers. No TVM.

An entry is a zip archive (see :mod:`tvm_ios.kernels.archive`) in ``kernels/`` of the cache folder,
named by the digest of everything its code depends on. So an entry is never wrong, only absent: a
writer moves a finished file into place, a reader drops a damaged one, and a missing kernel is
compiled again.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own, trim_folder
from tvm_ios.support.whole_file import write_bytes

__all__ = ["KernelCache"]

MOST_BYTES = 1 << 30
"""Limit in bytes, for many thousand kernels: an object has some ten kilobytes."""
ENTRIES_A_LOOK = 64
"""Average number of new entries between two looks at the size of all. A look reads the whole
folder, and merge stages are compiled by the hundred, two or three kernels at a time."""


class KernelCache:
    """Archives of compiled kernels by key; by default in ``kernels`` of tvm-ios's cache folder.

    Beyond the limit of all entries' bytes, those not used for longest go.
    """

    def __init__(self, folder: Path | None = None, *, most_bytes: int = MOST_BYTES) -> None:
        self.folder = own_folder(cache_directory() / "kernels" if folder is None else folder)
        self._most_bytes = most_bytes

    def get(self, key: str) -> bytes | None:
        """Archive of a key; None where there is none, or only a damaged one."""
        path = self._path(key)
        require_own(path)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if not _is_sound(content):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # a cache that can only be read still serves
            # A trim goes by this time: many disks do not keep that of the last access.
            os.utime(path)
        return content

    def put(self, key: str, archive: bytes) -> None:
        """Store an archive; a warning says if it cannot be written, and nothing is lost."""
        try:
            write_bytes(self._path(key), archive, mode=0o644)
            # By the key, not by a count: many processes each write a few.
            if zlib.crc32(key.encode()) % ENTRIES_A_LOOK == 0:
                self.trim()
        except OSError as error:
            warnings.warn(
                f"compiled kernels are not kept: {self.folder}: {error.strerror or error}; set "
                "TVM_IOS_CACHE_DIR to a folder you can write",
                RuntimeWarning,
                stacklevel=2,
            )

    def trim(self) -> int:
        """Drop the oldest entries while the sum is too large; return the number of dropped ones."""
        return trim_folder(self.folder, self._most_bytes)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.zip"


def _is_sound(content: bytes) -> bool:
    """True if every member of an archive has the checksum it was written with."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.testzip() is None
    except Exception:  # noqa: BLE001 - what zipfile throws depends on which byte is damaged
        return False
