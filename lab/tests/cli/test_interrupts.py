"""Ctrl-C in verbs that compile with TVM: raised once its C++ code would not drop it."""

from __future__ import annotations

import signal
import time

import pytest
import tvm

from tvm_ios.cli.main import main
from tvm_ios_lab.cli import bench, experiment


@pytest.mark.parametrize(
    ("verb", "step", "words"),
    [
        (bench, "_compiled_file", ("bench", "squeezenet")),
        (experiment, "by_name", ("experiment", "counts")),
    ],
)
def test_it_ends_a_verb_in_one_line_though_tvm_calls_python_back(
    verb, step, words, monkeypatch, capfd
):
    def calls_back(_):
        tvm.runtime.convert(lambda: signal.raise_signal(signal.SIGINT))()
        time.sleep(10)
        pytest.fail("Ctrl-C was lost")

    monkeypatch.setattr(verb, step, calls_back)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(words) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capfd.readouterr().err == "tvm-ios: interrupted\n"
