"""The verb that races two compiled models."""

from __future__ import annotations

import json
import shutil

from tvm_ios.cli.main import main


def compare(*words):
    return main(["compare", *map(str, words)])


def test_two_files_are_raced(fork_library, tmp_path, capsys):
    other = tmp_path / "other.so"
    shutil.copy(fork_library, other)
    assert compare(fork_library, other, "--rounds", 8) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"{fork_library}: median ")
    assert told[1].startswith(f"{other}: median ")
    assert f" over {other}: " in told[2]
    assert " times as fast (" in told[2]
    assert compare(fork_library, other, "--rounds", 8, "--json") == 0
    assert json.loads(capsys.readouterr().out)["names"] == [str(fork_library), str(other)]


def test_mistakes_are_one_line(fork_library, tmp_path, capsys):
    for words, message in (
        ([fork_library, fork_library], "are one file; give two"),
        ([fork_library, tmp_path / "no.so"], "no.so: cannot be read"),
        ([fork_library, fork_library.with_name("x"), "--rounds", "0"], "rounds is 0"),
    ):
        assert compare(*words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
