"""Progress where a person looks on, where nobody does, and when it is interrupted."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tvm_ios.support.messages import Verbosity, shown_messages
from tvm_ios.support.progress import Progress
from tvm_ios.support.terminal import StderrProgress, draws_on

PROGRAM = """
import json, logging, sys, time
from tvm_ios.support.messages import Verbosity, shown_messages
from tvm_ios.support.progress import Progress
from tvm_ios.support.terminal import StderrProgress
with shown_messages(Verbosity()), StderrProgress(min_interval_s=0.0) as show:
    show(Progress(phase="build", elapsed_s=0.5))
    for done in range(1, 4):
        show(Progress(phase="search", detail="x" * 200, done=done, share=done / 4,
                      best_ms=3.25, elapsed_s=0.5 + done))
    logging.getLogger("tvm_ios").warning("said meanwhile")
    print(json.dumps({"answer": 42}), flush=True)
    if len(sys.argv) > 1:
        print("waits", flush=True)
        time.sleep(60)
"""
PLAIN = [
    "[   0.5 s] build",
    "[   1.5 s] search 1 stages priced, best 3.250 ms, " + "x" * 200,
    "tvm-ios: said meanwhile",
]
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(project_root):
    """Runs the program with a terminal of 80 columns as standard error, and a pipe for the rest."""
    opened = []

    def start(*arguments: str, **environment: str) -> tuple[subprocess.Popen[str], int]:
        ours, theirs = pty.openpty()
        opened.append(ours)
        clean = {k: v for k, v in os.environ.items() if k not in ("CI", "NO_COLOR", "TERM")}
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            cwd=project_root,
            env=clean | {"TERM": "xterm-256color", "COLUMNS": "80"} | environment,
        )
        os.close(theirs)
        return child, ours

    yield start
    for descriptor in opened:
        os.close(descriptor)


def all_of(descriptor: int) -> str:
    """What was written to a terminal whose writers are gone."""
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # how Linux tells of the end
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces).decode()


def without_codes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_gets_a_bar_and_standard_output_only_results(on_terminal):
    child, terminal = on_terminal()
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert json.loads(said) == {"answer": 42}
    drawn = all_of(terminal)
    assert "━" in drawn
    shown = without_codes(drawn)
    assert "75%, 0:01 left 3 stages priced, best 3.250 ms" in shown
    assert "tvm-ios: said meanwhile" in shown
    lines = re.split(r"[\r\n]+", shown)
    assert max(map(len, lines)) <= 80  # a wider one would wrap
    assert drawn.rindex(SHOWN) > drawn.rindex(HIDDEN)
    assert shown.endswith("\n")


def test_names_in_details_are_printable():
    stream = io.StringIO()
    StderrProgress(stream=stream)(Progress(phase="build", detail="conv\x1b[2J"))
    assert stream.getvalue() == "[   0.0 s] build conv\\x1b[2J\n"


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"CI": "true"}, {"TERM": "dumb"}])
def test_who_asks_for_plain_text_gets_lines(on_terminal, plain):
    child, terminal = on_terminal(**plain)
    child.communicate(timeout=60)
    assert all_of(terminal).splitlines() == PLAIN


def test_ctrl_c_leaves_a_terminal_with_its_cursor(on_terminal):
    child, terminal = on_terminal("wait")
    assert child.stdout is not None
    assert child.stdout.readline()
    assert child.stdout.readline() == "waits\n"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    drawn = all_of(terminal)
    end = drawn.index("Traceback")  # of the program, which has no command line around it
    assert drawn[:end].rindex(SHOWN) > drawn[:end].rindex(HIDDEN)
    assert without_codes(drawn[:end]).endswith("\n")


def test_a_killed_process_leaves_a_cursor(on_terminal):
    child, terminal = on_terminal("wait")
    assert child.stdout is not None
    while child.stdout.readline() != "waits\n":
        pass
    child.kill()
    child.communicate(timeout=60)
    drawn = all_of(terminal)
    assert drawn.rindex(SHOWN) > drawn.rindex(HIDDEN)


def test_a_pipe_gets_a_line_a_phase(run_python, project_root):
    done = run_python("-c", PROGRAM, PYTHONPATH=str(project_root))
    assert done.stderr.splitlines() == PLAIN
    assert json.loads(done.stdout) == {"answer": 42}


def test_a_file_gets_a_line_a_phase() -> None:
    stream = io.StringIO()
    with StderrProgress(stream=stream) as show:
        show(Progress(phase="build", elapsed_s=0.5))
        for done in range(5):
            show(Progress(phase="search", detail="block 1", done=done, elapsed_s=2.0))
        show(Progress(phase="compare", elapsed_s=12.25))
    assert stream.getvalue().splitlines() == [
        "[   0.5 s] build",
        "[   2.0 s] search 0 stages priced, block 1",
        "[  12.2 s] compare",
    ]


def test_steps_that_come_too_fast_are_left_out(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stream = Terminal()
    with StderrProgress(stream=stream, min_interval_s=3600.0) as show:
        for done in range(100):
            show(Progress(phase="search", done=done))
    assert "0 stages priced" in stream.getvalue()
    assert "1 stages priced" not in stream.getvalue()


def test_an_estimate_that_was_far_too_low_is_withdrawn_and_not_raised(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stream = Terminal()
    with StderrProgress(stream=stream, min_interval_s=0.0) as show:
        for elapsed_s, share in ((0, 0.0), (5, 0.5), (8, 0.6), (20, 0.7), (100, 0.8), (101, 0.98)):
            show(Progress(phase="search", share=share, elapsed_s=float(elapsed_s)))
        show(Progress(phase="compare", elapsed_s=102.0))
        show(Progress(phase="compare", share=0.5, elapsed_s=132.0))
    shown = re.findall(r"(\d+)%(?:, (\d+:\d+) left)?", without_codes(stream.getvalue()))
    told = list(dict.fromkeys(shown))
    assert told == [
        ("50", "0:05"),
        ("60", "0:05"),
        ("70", ""),
        ("80", ""),
        ("98", "0:02"),
        ("50", "0:30"),
    ]


def test_quiet_and_silence_leave_nothing_behind() -> None:
    stream = Terminal()
    with shown_messages(Verbosity(quiet=True)), StderrProgress(stream=stream) as show:
        show(Progress(phase="search"))
    with StderrProgress(stream=stream):
        pass
    assert stream.getvalue() == ""


def test_only_a_terminal_that_moves_its_cursor_is_drawn_on() -> None:
    terminal = {"TERM": "xterm"}
    assert draws_on(Terminal(), terminal)
    assert not draws_on(io.StringIO(), terminal)
    for plain in ({}, {"TERM": "dumb"}, {**terminal, "NO_COLOR": "1"}, {**terminal, "CI": "1"}):
        assert not draws_on(Terminal(), plain)
    # The convention of NO_COLOR: an empty value says nothing.
    assert draws_on(Terminal(), {**terminal, "NO_COLOR": ""})
