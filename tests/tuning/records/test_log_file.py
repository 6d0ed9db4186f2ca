"""The lock follows the file's name, and a file is replaced as a whole."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading

import pytest

from tvm_ios.tuning.records.log_file import append_bytes, end_line, locked, read_on, replace_file


def replace(path, data):
    with locked(path, os.O_RDONLY) as descriptor:
        read_on(descriptor)
        replace_file(path, descriptor, data)


def test_append_makes_folders_and_leaves_half_a_line_alone(tmp_path):
    path = tmp_path / "new" / "log"
    append_bytes(path, b"one\ntwo\n")
    append_bytes(path, b"three\n")
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    path.write_bytes(b"one\ntw")
    append_bytes(path, b"three\n")
    assert path.read_bytes() == b"one\ntw\nthree\n"


def test_end_line(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one")
    end_line(path)
    assert path.read_bytes() == b"one\n"


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path):
    path, link = tmp_path / "log", tmp_path / "link"
    path.write_bytes(b"one\n")
    path.chmod(0o640)
    link.symlink_to(path)
    replace(link, b"two\n")
    assert link.is_symlink()
    assert path.read_bytes() == b"two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "log"]


def test_who_waited_for_a_lock_writes_into_the_file_that_is_there_now(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    with locked(path, os.O_RDONLY) as descriptor:
        waiting = threading.Thread(target=append_bytes, args=(path, b"two\n"))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        read_on(descriptor)
        replace_file(path, descriptor, b"mended\n")
    waiting.join()
    assert path.read_bytes() == b"mended\ntwo\n"


def test_who_waited_for_a_file_that_is_gone_makes_another(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    with locked(path, os.O_RDONLY):
        waiting = threading.Thread(target=append_bytes, args=(path, b"two\n"))
        waiting.start()
        waiting.join(0.1)
        path.unlink()
    waiting.join()
    assert path.read_bytes() == b"two\n"


def test_what_is_written_without_the_lock_meanwhile_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    really_replace = os.replace

    def written_just_before(source, target):
        with path.open("ab") as stock:
            stock.write(b"late\n")
        really_replace(source, target)

    monkeypatch.setattr(os, "replace", written_just_before)
    replace(path, b"mended\n")
    assert path.read_bytes() == b"mended\nlate\n"


def test_a_file_that_cannot_be_replaced_stays(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        replace(path, b"mended\n")
    assert [each.name for each in tmp_path.iterdir()] == ["log"]
    assert path.read_bytes() == b"one\n"


FILL = """
import resource, sys
from pathlib import Path
from tvm_ios.tuning.records.log_file import append_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
append_bytes(Path(sys.argv[1]), b"x" * 600 + b"\\n")
try:
    append_bytes(Path(sys.argv[1]), b"y" * 600 + b"\\n")
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
append_bytes(Path(sys.argv[1]), b"z\\n")
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit of file sizes here")
def test_a_full_disk_is_an_error_and_costs_one_line(tmp_path):
    path = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "only 399 of 601 bytes could be written\n"
    assert path.read_bytes() == b"x" * 600 + b"\n" + b"y" * 399 + b"\nz\n"
