"""The footer of an exported file: what it was made for, and a digest of all bytes before.

Loaders ignore bytes after the end of a shared library, so the file stays one. The footer is read
before anything of the file is executed: a truncated library would kill the process. No TVM here.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.artifact.identity import ArtifactIdentity
from tvm_ios.runtime.artifact.story import ModelStory

__all__ = ["append_footer", "read_footer", "read_story"]

_MAGIC = b"tvm-ios artifact"
_LENGTH = struct.Struct("<I")
"""Length of the identity, which comes before it."""
_STORY = struct.Struct("<I13s")
"""Length of the story, which comes before it, and a mark: older files have none."""
_STORY_MAGIC = b"tvm-ios story"
_TAIL = struct.Struct("<32s16s")
"""Digest of everything before the tail, magic."""


def append_footer(path: Path, identity: ArtifactIdentity, story: ModelStory | None = None) -> None:
    """Write the footer at the end of a library."""
    text = b""
    if story is not None:
        text = story.to_bytes()
        text += _STORY.pack(len(text), _STORY_MAGIC)
    known = identity.to_json().encode()
    text += known + _LENGTH.pack(len(known))
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256")
        digest.update(text)
        file.seek(0, 2)
        file.write(text + _TAIL.pack(digest.digest(), _MAGIC))


def read_footer(path: Path) -> ArtifactIdentity:
    """Read the footer and check the digest.

    Raises
    ------
    ArtifactError
        If the file cannot be read, has no footer, or is damaged.
    """
    body, start = _checked_body(path)
    text = body[start : -_LENGTH.size]
    try:
        return ArtifactIdentity.from_json(text.decode(errors="replace"))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def read_story(path: Path) -> ModelStory | None:
    """Read what the file tells of its model; None where it was exported before there were stories.

    Raises
    ------
    ArtifactError
        If the file cannot be read, has no footer, or is damaged.
    """
    body, end = _checked_body(path)
    end -= _STORY.size
    if end < 0:
        return None
    length, magic = _STORY.unpack(body[end : end + _STORY.size])
    if magic != _STORY_MAGIC:
        return None
    try:
        return ModelStory.from_bytes(body[end - length : end])
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error


def _checked_body(path: Path) -> tuple[bytes, int]:
    """All bytes before the tail, which has their digest, and where the identity begins."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error.strerror or error}; check the path"
        ) from error
    if len(content) < _LENGTH.size + _TAIL.size or not content.endswith(_MAGIC):
        raise ArtifactError(
            f"{path}: {len(content)} bytes without a tvm-ios footer at the end: it is truncated, "
            "stripped, or was not exported by tvm-ios; export the model again"
        )
    expected, _ = _TAIL.unpack(content[-_TAIL.size :])
    body = content[: -_TAIL.size]
    if hashlib.sha256(body).digest() != expected:
        raise ArtifactError(
            f"{path}: the content does not match its digest, the file is damaged; "
            "copy or export it again"
        )
    (length,) = _LENGTH.unpack(body[-_LENGTH.size :])
    return body, len(body) - _LENGTH.size - length
