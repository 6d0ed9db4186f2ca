"""Text files that are whole or as they were."""

from __future__ import annotations

import errno
import os
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


def test_the_file_behind_a_link_is_replaced_and_a_pipe_is_written_to(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "said")
        assert os.read(reader, 100) == b"said"
        writer = os.open(pipe, os.O_WRONLY)
        write_text(Path(f"/dev/fd/{writer}"), "again")
        os.close(writer)
        assert os.read(reader, 100) == b"again"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(ArtifactError, match="cannot write"):
        write_text(tmp_path, "a folder")


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
