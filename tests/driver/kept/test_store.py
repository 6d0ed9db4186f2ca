"""Kept results: found as they were, never half, never for ever, within a bound."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.driver.kept.conftest import export
from tvm_ios.driver.kept.store import DOUBTFUL_S, KeptResults
from tvm_ios.errors import OptionError

KILLED = """
import os, pickle, sys, time
from pathlib import Path
from tests.driver.kept.conftest import export
from tvm_ios.driver.kept.store import KeptResults

def slow(path):
    def code():
        print("now", flush=True)
        time.sleep(60)
    from tvm_ios.runtime.artifact.new_artifact import new_artifact
    with new_artifact(path) as library:
        library.write_bytes(b"half")
        code()

KeptResults().keep("key", pickle.loads(bytes.fromhex(sys.argv[1])), slow)
"""


def test_a_result_is_found_as_it_was(make_result):
    results, result = KeptResults(), make_result(notes=("a line",))
    assert results.find("key", None) is None
    assert results.keep("key", result, export(b"code"))
    found = results.find("key", None)
    assert found.result == result
    assert found.path.read_bytes().startswith(b"code")
    assert found.result.report.summary() == result.report.summary()
    assert "--fresh" in found.result.as_text()


def test_another_key_leads_to_the_same_file(make_result):
    results = KeptResults()
    results.keep("key", make_result(), export(b"code"))
    results.also("key", "other")
    assert results.find("other", None).path == results.find("key", None).path


@pytest.mark.parametrize("share", [0, 0.3, 0.99])
def test_a_truncated_file_or_entry_is_told_and_dropped(make_result, kept_folder, caplog, share):
    results = KeptResults()
    for suffix in (".so", ".entry"):
        results.keep("key", make_result(), export(b"code" * 100))
        (path,) = kept_folder.glob(f"*{suffix}")
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
        caplog.clear()
        assert results.find("key", None) is None
        assert "a kept result is damaged, and made anew" in caplog.text
        assert not path.exists()
        for each in kept_folder.iterdir():
            each.unlink()


def test_a_result_of_a_budget_serves_calls_with_as_little_time_only(make_result):
    results = KeptResults()
    results.keep("key", make_result(time_budget=10.0), export(b"cut"))
    assert results.find("key", 10.0) is not None
    assert results.find("key", 5.0) is not None
    assert results.find("key", 20.0) is None
    assert results.find("key", None) is None
    results.keep("key", make_result(), export(b"whole"))
    assert results.find("key", 5.0).path.read_bytes().startswith(b"whole")


def test_a_report_with_stock_tvm_serves_those_without_and_not_the_other_way_round(make_result):
    results = KeptResults()
    results.keep("key", make_result(), export(b"code"))
    assert results.find("key", None, beside_stock=True) is None
    results.keep("key", make_result(beside_stock=True), export(b"code"))
    assert results.find("key", None) == results.find("key", None, beside_stock=True) is not None


def test_a_doubtful_result_serves_for_an_hour(make_result):
    results, result = KeptResults(), make_result(certain=False)
    results.keep("key", result, export(b"code"))
    assert "while the machine was disturbed" in results.find("key", None).result.as_text()
    assert results.find("key", None, certain=True) is None  # who waits for a quiet machine
    old = replace(result, made_at_s=time.time() - DOUBTFUL_S - 1)
    results.keep("key", old, export(b"code"))
    assert results.find("key", None) is None


def test_those_not_used_for_longest_go_first(make_result, monkeypatch):
    monkeypatch.setenv("TVM_IOS_KEPT_MIB", "1")
    results = KeptResults()
    for number in range(4):
        results.keep(str(number), make_result(), export(bytes(300_000)))
        for path in results.folder.iterdir():
            if path.stat().st_mtime > 100:
                os.utime(path, (number, number))
        results.find("0", None)  # used now, so the newest
    assert [number for number in range(4) if results.find(str(number), None)] == [0, 3]
    assert sum(path.stat().st_size for path in results.folder.iterdir()) < 1 << 20


def test_the_bound_is_a_whole_number_and_0_keeps_nothing(monkeypatch):
    monkeypatch.setenv("TVM_IOS_KEPT_MIB", "many")
    with pytest.raises(OptionError, match="TVM_IOS_KEPT_MIB is 'many'; give a whole number of MiB"):
        KeptResults()
    monkeypatch.setenv("TVM_IOS_KEPT_MIB", "0")
    assert KeptResults().is_off


def test_a_folder_that_cannot_be_written_is_a_warning(make_result, kept_folder, caplog):
    kept_folder.rmdir()
    kept_folder.write_text("")
    assert not KeptResults().keep("key", make_result(), export(b"code"))
    assert "the result is not kept for the next call" in caplog.text


def test_writers_of_one_key_never_leave_half_a_result(make_result):
    results, wrong = KeptResults(), []
    result = make_result()

    def work(number):
        for _ in range(20):
            content = bytes([number]) * 5000
            mine = replace(result, file=f"{number}-{time.time_ns()}.so")
            results.keep("key", mine, export(content))
            found = results.find("key", None)
            if found is None or len(set(found.path.read_bytes()[:5000])) != 1:
                wrong.append(found)

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(4)))
    assert not wrong


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_nothing_that_is_taken(
    make_result, kept_folder, project_root, monkeypatch
):
    words = [sys.executable, "-c", KILLED, pickle.dumps(make_result()).hex()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=project_root) as writer:
        assert writer.stdout.readline() == b"now\n"
        writer.send_signal(signal.SIGKILL)
    results = KeptResults()
    assert results.find("key", None) is None
    assert [path.is_dir() for path in kept_folder.iterdir()] == [True]  # what it had begun
    results.keep("key", make_result(), export(b"code"))
    assert results.find("key", None) is not None
    monkeypatch.setattr(results, "_most_bytes", 1)
    results.keep("key", make_result(), export(b"code"))
    assert not any(path.is_dir() for path in kept_folder.iterdir())
