"""The verb that takes decisions to another machine, without TVM."""

from __future__ import annotations

import pytest

from tvm_ios.cli.main import main
from tvm_ios.runtime.artifact.decisions_file import read_decisions
from tvm_ios.runtime.artifact.footer import read_story


def decisions(*words):
    return main(["decisions", *map(str, words)])


@pytest.mark.slow(1)
def test_they_are_exported_and_shown_without_tvm(
    fork_library, tmp_path, run_python, project_root, capsys, monkeypatch
):
    code = (
        "import sys; from tvm_ios.cli.main import main; "
        f"status = main(['decisions', 'export', {str(fork_library)!r}, '-o', "
        f"{str(tmp_path / 'f.json')!r}]); print(status, 'tvm' in sys.modules)"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    wrote, following, status = done.stdout.splitlines()
    assert (wrote, status) == (f"wrote {tmp_path / 'f.json'}", "0 False")
    assert "tvm-ios tune MODEL --decisions " in following
    assert read_decisions(tmp_path / "f.json") == read_decisions(fork_library)
    monkeypatch.chdir(tmp_path)
    assert decisions("export", fork_library) == 0
    assert "wrote fork.decisions.json" in capsys.readouterr().out
    for file in (fork_library, tmp_path / "fork.decisions.json"):
        assert decisions("show", file) == 0
        text = capsys.readouterr().out
        assert "operators by maker: TVM's kernels " in text
        assert read_story(fork_library).schedule.as_text() in text
    assert main(["show", "fork.decisions.json"]) == 0
    assert capsys.readouterr().out == text


def test_mistakes_are_one_line(fork_library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text('{"decisions": 1}')
    (tmp_path / "s.json").write_text(read_story(fork_library).schedule.to_json())
    for words, message in (
        (["show", "no.so"], "no.so: cannot be read"),
        (["show", "bad.json"], "bad.json: no decisions: "),
        (["export", "s.json"], "s.json is a schedule alone"),
        (["export", fork_library, "-o", "f.txt"], "--output is f.txt; give it the ending .json"),
    ):
        assert decisions(*words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    for words in (["--decisions", "no.json"], ["--decisions", "bad.json"]):
        assert main(["tune", "squeezenet", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words[1] in line
