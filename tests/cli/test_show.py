"""The verb that says what a compiled model is, without TVM."""

from __future__ import annotations

import tvm_ios
from tvm_ios.cli.main import main
from tvm_ios.runtime.artifact.footer import read_story


def show(*words):
    return main(["show", *map(str, words)])


def test_a_model_tells_of_itself_without_tvm(fork_library, run_python, project_root):
    code = (
        "import sys; from tvm_ios.cli.main import main; "
        f"status = main(['show', {str(fork_library)!r}]); print(status, 'tvm' in sys.modules)"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert done.stdout.splitlines()[-1] == "0 False"
    assert " MB for llvm -keys=cpu " in done.stdout
    assert "lanes: 1" in done.stdout
    assert "versions: tvm-ios " in done.stdout
    assert "machine: processor " in done.stdout
    assert "the schedule was given: nothing was tuned" in done.stdout
    assert read_story(fork_library).schedule.as_text() in done.stdout


def test_a_picture_and_a_page_are_written(fork_library, tmp_path, capsys):
    svg, page = tmp_path / "f.svg", tmp_path / "f.html"
    assert show(fork_library, "--figure", svg, "--html", page) == 0
    assert f"wrote {svg}\nwrote {page}\n" in capsys.readouterr().out
    assert "<svg" in svg.read_text()
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<svg") == 1
    assert "viewBox" in text
    assert "<?xml" not in text
    assert "<title>fork · tvm-ios</title>" in text
    assert text.count('<g class="op"') == len(read_story(fork_library).graph)
    assert "was given: nothing was tuned or timed" in text


def test_a_page_needs_no_matplotlib_and_no_tvm(fork_library, tmp_path, run_python, project_root):
    page = tmp_path / "f.html"
    code = (
        "import sys; from tvm_ios.cli.main import main; "
        f"status = main(['show', {str(fork_library)!r}, '--html', {str(page)!r}]); "
        "print(status, [name for name in ('tvm', 'matplotlib') if name in sys.modules])"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    assert done.stdout.splitlines()[-1] == "0 []"
    assert '<section id="schedule">' in page.read_text()


def test_a_schedule_is_shown(fork_library, tmp_path, capsys):
    schedule, path = read_story(fork_library).schedule, tmp_path / "s.json"
    path.write_text(schedule.to_json())
    assert show(path) == 0
    assert capsys.readouterr().out == schedule.as_text() + "\n"
    assert show(path, "--figure", tmp_path / "f.png") == 2
    assert "s.json has no operator graph, which a picture needs" in capsys.readouterr().err


def test_mistakes_are_one_line(fork_library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    for words, message in (
        (["no.so"], "no.so: cannot be read"),
        (["no.json"], "cannot read no.json"),
        (["bad.json"], "bad.json: "),
        ([fork_library, "--figure", "no/f.png"], "cannot write the picture: "),
        ([fork_library, "--figure", "f.what"], "cannot write the picture: "),
        ([fork_library, "--html", "no/f.html"], "cannot write the page no/f.html: "),
    ):
        assert show(*words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line


def test_what_was_tuned_tells_why(fork, tmp_path, capsys):
    from dataclasses import replace

    model = tvm_ios.compile_schedule(*fork, "llvm -opt-level=0", lanes=1)

    class Told:
        evidence = None
        story = model.story()

        def as_text(self):
            return "kept sequential: nothing was faster"

    replace(model, tune_report=Told()).export_library(tmp_path / "m.so")
    assert show(tmp_path / "m.so") == 0
    assert "kept sequential: nothing was faster" in capsys.readouterr().out
