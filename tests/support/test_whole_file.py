"""Text files that are whole or as they were."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios.support.whole_file import write_text


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a" / "b.json"
    write_text(path, "größer\n")
    write_text(path, "kleiner\n")
    assert path.read_text(encoding="utf-8") == "kleiner\n"
    assert list(path.parent.iterdir()) == [path]


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_what_cannot_be_written_is_refused_and_stays_as_it_was(tmp_path, monkeypatch, step):
    path = tmp_path / "kept"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(Path, step, full_disk)
        with pytest.raises(ArtifactError, match="write .*kept: .*No space.*; choose another place"):
            write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ArtifactError, match="cannot write"):
        write_text(path / "below", "new")
