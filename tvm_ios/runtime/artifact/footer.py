"""The footer of an exported file: what the file was made for, and a digest of all bytes before.

Loaders ignore bytes after the end of a shared library, so library and footer are one file. The
footer is read before any code of the file runs: a truncated library would kill the process. No TVM
here.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import BinaryIO

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.artifact.identity import ArtifactIdentity
from tvm_ios.runtime.artifact.story import ModelStory

__all__ = ["append_footer", "read_footer", "read_story"]

# tvm_ios_model.c reads the same footer.
_MAGIC = b"tvm-ios artifact"
_LENGTH = struct.Struct("<I")
"""Layout of the length in bytes of the identity, which lies before this length."""
_MARKED = struct.Struct("<I13s")
"""Layout of the length in bytes of what lies before it, and a mark. The image of the plan comes
first, then the story; older files lack one or both."""
_STORY_MARK = b"tvm-ios story"
_IMAGE_MARK = b"tvm-ios image"
_TAIL = struct.Struct("<32s16s")
"""Layout of the end of the file: digest of everything before, magic."""
_PIECE_BYTES = 1 << 20


def append_footer(
    path: Path, identity: ArtifactIdentity, story: ModelStory | None = None, image: bytes = b""
) -> None:
    """Write the footer at the end of a library; ``image`` is that of its plan."""
    text = image + _MARKED.pack(len(image), _IMAGE_MARK)
    if story is not None:
        told = story.to_bytes()
        text += told + _MARKED.pack(len(told), _STORY_MARK)
    known = identity.to_json().encode()
    text += known + _LENGTH.pack(len(known))
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256")
        digest.update(text)
        file.seek(0, 2)
        file.write(text + _TAIL.pack(digest.digest(), _MAGIC))


def read_footer(path: Path) -> ArtifactIdentity:
    """Read the footer and check the digest."""
    text, _ = _checked(path)
    try:
        return ArtifactIdentity.from_json(text.decode(errors="replace"))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def read_story(path: Path) -> ModelStory | None:
    """The story that a file tells of its model; None in files older than stories."""
    _, text = _checked(path)
    try:
        return None if text is None else ModelStory.from_bytes(text)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def _checked(path: Path) -> tuple[bytes, bytes | None]:
    """Identity and story (None where there is none) of a file, after a check of its digest."""
    try:
        with path.open("rb") as file:
            return _read_checked(file, path)
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error.strerror or error}; check the path"
        ) from error


def _read_checked(file: BinaryIO, path: Path) -> tuple[bytes, bytes | None]:
    size = file.seek(0, os.SEEK_END)
    end = size - _TAIL.size
    tail = _part(file, max(end, 0), size)
    if end < _LENGTH.size or not tail.endswith(_MAGIC):
        raise ArtifactError(
            f"{path}: {size} bytes without a tvm-ios footer at the end: it is truncated, "
            "stripped, or was not exported by tvm-ios; export the model again"
        )
    expected, _ = _TAIL.unpack(tail)
    if _digest(file, end) != expected:
        raise ArtifactError(
            f"{path}: the content does not match its digest, the file is damaged; "
            "copy or export it again"
        )
    end -= _LENGTH.size
    (length,) = _LENGTH.unpack(_part(file, end, end + _LENGTH.size))
    begin = end - length
    identity, end = _part(file, begin, end), begin - _MARKED.size
    if end < 0:
        return identity, None
    length, mark = _MARKED.unpack(_part(file, end, begin))
    return identity, _part(file, end - length, end) if mark == _STORY_MARK else None


def _part(file: BinaryIO, begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _digest(file: BinaryIO, size_bytes: int) -> bytes:
    """Digest of the first bytes of a file, read by pieces: a model may be as large as memory."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(min(size_bytes, _PIECE_BYTES)):
        digest.update(piece)
        size_bytes -= len(piece)
    return digest.digest()
