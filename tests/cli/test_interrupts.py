"""Ctrl-C while TVM compiles: one line, whatever code it meets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import weakref
from contextlib import suppress

import numpy as np
import pytest
import tvm
from tvm.contrib.popen_pool import PopenPoolExecutor

import tvm_ios
from tvm_ios.cli.interrupts import told_interrupts
from tvm_ios.kernels.workers import shared_workers
from tvm_ios.runtime.artifact.footer import read_story


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def wait() -> None:
    for _ in range(1000):
        time.sleep(0.01)
    pytest.fail("Ctrl-C was lost")


pytestmark = pytest.mark.usefixtures("hears_ctrl_c")


def interrupted(work):
    with pytest.raises(KeyboardInterrupt):
        told_interrupts()(work)()


def test_elsewhere_it_is_raised_at_once():
    seen = []
    interrupted(lambda: seen.append(press()))
    assert not seen


IN_A_CALLBACK = """
import signal, time
import tvm
from tvm_ios.cli.interrupts import told_interrupts
seen = []

def callback():
    signal.raise_signal(signal.SIGINT)
    seen.append("whole")
    return 7

try:
    with told_interrupts():
        seen.append(tvm.runtime.convert(callback)())
        time.sleep(10)
        seen.append("lost")
except KeyboardInterrupt:
    print(seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("binding", "seen"), [("ctypes", ["whole", 7]), ("auto", [])])
def test_in_a_callback_of_tvm_it_is_raised_after_it_if_it_would_be_lost_there(
    run_python, binding, seen
):
    """TVM's binding in ctypes drops it; the compiled one passes it on to who called TVM."""
    done = run_python("-c", IN_A_CALLBACK, TVM_FFI=binding)
    assert (done.stdout, done.stderr) == (f"{seen}\n", "")


class Dying:
    def __del__(self):
        press()


def end_of_a_referent():
    thing = set()
    reference = weakref.ref(thing, lambda _: press())
    del thing
    assert reference() is None


@pytest.mark.parametrize("drops", [Dying, end_of_a_referent])
def test_where_python_drops_exceptions_it_is_raised_later(drops, capfd):
    def work():
        drops()
        wait()

    interrupted(work)
    assert capfd.readouterr().err == ""


def test_what_fails_after_it_failed_of_it():
    def callback():
        press()
        raise ValueError("half of an answer")

    interrupted(tvm.runtime.convert(callback))


def test_notes_on_what_failed_of_it_stay():
    def fails():
        with suppress(KeyboardInterrupt):
            press()
        error = ValueError("half of an answer")
        error.add_note("the other half is in a file")
        raise error

    with pytest.raises(KeyboardInterrupt) as caught:
        told_interrupts()(fails)()
    assert caught.value.__notes__ == ["the other half is in a file"]


def test_without_it_errors_and_other_dropped_exceptions_stay(monkeypatch):
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: dropped.append(what.exc_type))

    class Fails:
        def __del__(self):
            raise OSError

    @told_interrupts()
    def work():
        Fails()
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        work()
    assert dropped == [OSError]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with told_interrupts():
        press()


def test_a_second_one_ends_the_process_at_once():
    program = """
        import signal
        from tvm_ios.cli.interrupts import told_interrupts
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with told_interrupts():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)
                print("not at once")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tvm-ios: interrupted\n")


def blocked_signals():
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.slow
def test_worker_processes_do_not_hear_it():
    with shared_workers():
        pool = PopenPoolExecutor(max_workers=1)
        assert signal.SIGINT in pool.submit(blocked_signals).result(60)
    assert signal.SIGINT not in blocked_signals()


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    ("phase", "options"),
    [
        ("build", ()),
        ("search", ()),
        pytest.param("compare", (), marks=pytest.mark.full),
        ("tune", ("--tuning", "autotvm", "--trials", "64")),
    ],
)
def test_tune_ends_in_one_line_and_leaves_the_best_so_far(fork, phase, options, tmp_path):
    """Ctrl-C is sent to all processes of the group, as a terminal does."""
    output = tmp_path / "net.so"
    output.write_bytes(b"what was there")
    model = tmp_path / "net.json"
    model.write_text(tvm.ir.save_json(fork[0]))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(fork[1]))
    words = ["tune", model, "--params", tmp_path / "net.params", "-o", output]
    words += ["--database", tmp_path / "prices.sqlite", "--libraries", "none", *options]
    if options:
        words += ["--tuning-records", tmp_path / "log.json"]
    with subprocess.Popen(
        [sys.executable, "-m", "tvm_ios", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        for line in child.stderr:
            if line.rstrip().endswith(f"s] {phase}"):
                break
        os.killpg(child.pid, signal.SIGINT)
        said = child.stderr.read().splitlines()
    assert child.returncode == 130, said
    end = said.index("tvm-ios: interrupted")
    assert not any("Traceback" in line or "ignored" in line for line in said[:end])
    assert [line for line in said[end + 1 :] if not line.startswith("  ")] == []
    told = "\n".join(said[end + 1 :])
    assert set(tmp_path.glob("tmp*")) == set()
    if phase == "build" and output.read_bytes() == b"what was there":
        assert f"{output} is as it was: there was no model yet" in told
        return
    assert f"{output} has the best model so far (sequential order" in told
    assert "the same command goes on from what was measured" in told
    assert "which was not raced against other schedules" in read_story(output).report
    with tvm_ios.load(output) as executor:
        executor.run(data=np.zeros((1, 16, 8, 8), "float32"))
        assert executor.get_num_outputs() == 1
