"""The footer of an exported file: what the file was made for, and a digest of all bytes before.

Loaders ignore bytes after the end of a shared library, so library and footer are one file. The
footer is read before any code of the file runs: a truncated library would kill the process. No TVM
here.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tvm_ios.errors import ArtifactError
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.plan import ALIGNMENT_BYTES
from tvm_ios.runtime.artifact.identity import ArtifactIdentity
from tvm_ios.runtime.artifact.story import ModelStory

__all__ = ["Footer", "append_footer", "read_footer", "read_story"]

# tvm_ios_model.c reads the same footer.
_MAGIC = b"tvm-ios artifact"
_LENGTH = struct.Struct("<I")
"""Layout of the length in bytes of the identity, which lies before this length."""
_MARKED = struct.Struct("<I13s")
"""Layout of the length in bytes of what lies before it, and a mark. Parameters, which only files
of TVM-FFI have here, come first; then the rest that onnxruntime runs, which few files have; the
image of the plan; the story."""
_STORY_MARK = b"tvm-ios story"
_IMAGE_MARK = b"tvm-ios image"
_REST_MARK = b"tvm-ios rest."
_PARAMETERS_MARK = b"tvm-ios param"
_MOST_BYTES = (1 << 32) - 1
"""Most bytes that a length can say."""
_TAIL = struct.Struct("<32s16s")
"""Layout of the end of the file: digest of everything before, magic."""
_PIECE_BYTES = 1 << 20


def append_footer(
    path: Path,
    identity: ArtifactIdentity,
    story: ModelStory | None = None,
    image: bytes = b"",
    rest: Rest | None = None,
    parameters: Sequence[bytes | memoryview] = (),
) -> None:
    """Write the footer at the end of a library; ``image`` is that of its plan.

    ``parameters`` are the values of those that the library has not itself, in the order of the
    plan's inputs. They lie in the file as they would in memory, each on a boundary of
    :data:`ALIGNMENT_BYTES`.
    """
    # Parameters may be most of memory: none is copied.
    values = [piece for each in parameters for piece in (each, _padding(len(each)))]
    values_bytes = sum(map(len, values))
    if values_bytes > _MOST_BYTES:
        raise ArtifactError(
            f"{path}: the parameters are {values_bytes} bytes, and a file holds {_MOST_BYTES}; "
            "export parts of the model on their own"
        )
    pieces = []
    if values_bytes:
        mark = _MARKED.pack(values_bytes, _PARAMETERS_MARK)
        pieces = [_padding(path.stat().st_size), *values, mark]
    marked = (
        (b"" if rest is None else rest.to_bytes(), _REST_MARK),
        (image, _IMAGE_MARK),
        (b"" if story is None else story.to_bytes(), _STORY_MARK),
    )
    pieces += [part + _MARKED.pack(len(part), mark) for part, mark in marked if part]
    known = identity.to_json().encode()
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256")
        file.seek(0, 2)
        for piece in (*pieces, known + _LENGTH.pack(len(known))):
            digest.update(piece)
            file.write(piece)
        file.write(_TAIL.pack(digest.digest(), _MAGIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """Parts of a footer whose digest was right."""

    identity: ArtifactIdentity
    story: bytes | None
    """Packed story of the model; None in files without one."""
    image: bytes
    """Image of the plan; empty in files of before images."""
    rest: Rest | None = None
    """Nodes that onnxruntime runs after the plan; None in most files."""
    parameters: tuple[int, int] | None = None
    """First byte of the values of parameters, and their end; None where the library has them."""


def read_footer(path: Path) -> Footer:
    """Read the footer and check the digest."""
    try:
        with path.open("rb") as file:
            return _read_checked(file, path)
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error.strerror or error}; check the path"
        ) from error


def read_story(path: Path) -> ModelStory | None:
    """The story that a file tells of its model; None in files older than stories."""
    packed = read_footer(path).story
    try:
        return None if packed is None else ModelStory.from_bytes(packed)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def _read_checked(file: BinaryIO, path: Path) -> Footer:
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
    text, end = _part(file, end - length, end), end - length
    story, end = _marked(file, end, _STORY_MARK)
    image, end = _marked(file, end, _IMAGE_MARK)
    rest, end = _marked(file, end, _REST_MARK)
    parameters = _place(file, end, _PARAMETERS_MARK)
    try:
        identity = ArtifactIdentity.from_json(text.decode(errors="replace"))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error
    return Footer(
        identity=identity,
        story=story,
        image=image or b"",
        rest=None if rest is None else Rest.from_bytes(rest),
        parameters=parameters,
    )


def _marked(file: BinaryIO, end: int, mark: bytes) -> tuple[bytes | None, int]:
    """Bytes before a mark that ends somewhere, and where they begin; None without the mark."""
    place = _place(file, end, mark)
    return (None, end) if place is None else (_part(file, *place), place[0])


def _place(file: BinaryIO, end: int, mark: bytes) -> tuple[int, int] | None:
    """Begin and end of the bytes before a mark in a file, if the mark ends at ``end``."""
    tail = end - _MARKED.size
    if tail < 0:
        return None
    length, found = _MARKED.unpack(_part(file, tail, end))
    return (tail - length, tail) if found == mark else None


def _padding(size_bytes: int) -> bytes:
    """Zeros up to the next boundary."""
    return bytes(-size_bytes % ALIGNMENT_BYTES)


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
