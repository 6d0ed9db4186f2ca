"""Pools of lanes as Python sees them: failures, closing, forks, threads and Ctrl-C."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.host.processor import usable_cores
from tvm_ios.measure.machine_mode import MOST_WAITED
from tvm_ios.runtime.base import native_runtime
from tvm_ios.runtime.base.lane_pool import LaneOptions, LanePool, LaunchFailedError
from tvm_ios.runtime.base.native_runtime import NativeLaunch, address_of, shared_runtime
from tvm_ios.support.c_compiler import compile_shared

_NATIVE = Path(native_runtime.__file__).parent / "native"
_SOURCE = Path(__file__).parents[1] / "native" / "pool_kernels.c"
_STRESS = LaneOptions(oversubscribe=True)


class Counters:
    """A pool, and launches that count how often they run."""

    def __init__(self, lanes: int, kernels: str = "count", *, launches: int = 8) -> None:
        library = ctypes.CDLL(str(compile_shared(_SOURCE, [f"-I{_NATIVE}"])))
        self.counts = (ctypes.c_int64 * launches)()
        self._native = (NativeLaunch * launches)()
        names = kernels.split() * launches
        for index, native in enumerate(self._native):
            native.kernel = address_of(library, names[index])
            native.resource = ctypes.addressof(self.counts) + 8 * index
        self.pool = LanePool(
            shared_runtime(), lanes, _STRESS, get_last_error=address_of(library, "get_last_error")
        )
        size = ctypes.sizeof(NativeLaunch)
        addresses = [ctypes.addressof(self._native) + size * index for index in range(launches)]
        self.program = self.pool.program([[a] for a in addresses], [()] * launches)


def native_threads() -> int:
    gc.collect()  # pools of earlier tests
    names = []
    for thread in Path("/proc/self/task").iterdir():
        try:
            names.append((thread / "comm").read_text().strip())
        except OSError:  # it ended meanwhile
            continue
    return names.count("tvm-ios lane")


def native_threads_become(count: int) -> bool:
    """A thread that was joined may be listed a moment longer."""
    deadline = time.monotonic() + 10
    while native_threads() != count:
        if time.monotonic() > deadline:
            return False
    return True


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_every_launch_runs_once_a_run(lanes):
    counters = Counters(lanes)
    for _ in range(50):
        counters.pool.run(counters.program)
    assert counters.pool.time_ns(counters.program, 100) > 0
    assert list(counters.counts) == [150] * 8


def test_a_failure_names_the_launch_and_leaves_the_pool_usable():
    counters = Counters(2, "count count fail count")
    for _ in range(20):
        with pytest.raises(LaunchFailedError, match="the shape is wrong") as caught:
            counters.pool.run(counters.program)
        assert caught.value.position in (2, 6)
    again = Counters(2)
    again.pool.run(again.program)
    counters.pool.run(again.program)
    assert list(again.counts) == [2] * 8


def test_more_lanes_than_cores_are_refused():
    cores = len(usable_cores())
    with pytest.raises(OptionError, match=f"lanes is {cores + 1}, but .* {cores} cores; give 1 to"):
        LanePool(shared_runtime(), cores + 1)


def test_regions_cannot_be_split_without_end():
    with pytest.raises(OptionError, match="tasks_per_lane is 1073741824; give 1 to 1000"):
        LaneOptions(tasks_per_lane=2**30)


@pytest.mark.parametrize("lanes", [0, -3])
def test_lanes_must_be_positive(lanes):
    with pytest.raises(OptionError, match=f"lanes is {lanes}"):
        LanePool(shared_runtime(), lanes)


def test_closing_joins_the_threads():
    before = native_threads()
    counters = Counters(4)
    counters.pool.run(counters.program)
    assert native_threads() == before + 3
    counters.pool.close()
    counters.pool.close()
    assert native_threads_become(before)
    with pytest.raises(ExecutionError, match="closed"):
        counters.pool.run(counters.program)
    with pytest.raises(ExecutionError, match="closed"):
        counters.pool.ping_pong_ns()


@pytest.mark.slow
def test_collection_joins_the_threads():
    before = native_threads()
    for _ in range(20):
        counters = Counters(3)
        counters.pool.run(counters.program)
        del counters
        gc.collect()
    assert native_threads_become(before)


def shares(pool, timing) -> list[float]:
    """Share of each of some timings that a lane waited for a core, in ascending order."""
    found = []
    for _ in range(60):
        begin_ns = pool.waited_ns()
        elapsed_ns = timing()
        found.append((pool.waited_ns() - begin_ns) / elapsed_ns)
    return sorted(found)


def test_lanes_have_threads_of_their_own():
    counters = Counters(3)
    threads = (ctypes.c_int32 * 3)()
    counters.pool.run(counters.program, assemble=True)
    counters.pool.runtime.pool_threads(counters.pool._handle, threads)
    assert threads[0] == threading.get_native_id()
    assert len({*threads}) == 3
    assert all(Path(f"/proc/self/task/{thread}").exists() for thread in threads)


def test_a_wait_of_a_lane_is_counted_once(monkeypatch):
    """Of lanes that waited 7 and 20 ns it is 20; waits before a timing do not count."""
    counters = Counters(2)
    readings = iter([(100, 200), (107, 220), (1000, 2000), (1000, 2000)])
    monkeypatch.setattr(counters.pool, "_run_delay", Reading(readings))
    counters.pool.time_ns(counters.program, 10)
    assert counters.pool.waited_ns() == 20
    counters.pool.time_ns(counters.program, 10)
    assert counters.pool.waited_ns() == 20


def test_waits_that_nobody_counts_are_not_asked_for_again(monkeypatch):
    counters = Counters(2)
    monkeypatch.setattr(counters.pool, "_run_delay", Reading(iter([None])))
    for _ in range(3):
        counters.pool.time_ns(counters.program, 10)
        assert counters.pool.waited_ns() is None


class Reading:
    """Run delays that a test makes up."""

    def __init__(self, readings):
        self.readings = readings

    def read_ns(self, _threads):
        return next(self.readings)


@pytest.mark.slow
@pytest.mark.quiet
@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core: lanes wait for each other")
def test_lanes_beside_other_processes_wait_for_their_cores():
    """Where others burn all cores, a long timing never has them; without them a short one does."""
    program = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    counters = Counters(len(usable_cores()), "linger")
    pool, runs = counters.pool, 20
    pool.time_ns(counters.program, runs)
    if pool.waited_ns() is None:
        pytest.skip("this kernel counts no run delay")
    quiet = shares(pool, partial(pool.time_ns, counters.program, runs))
    burners = [subprocess.Popen([sys.executable, "-c", program]) for _ in usable_cores()]
    try:
        busy = shares(pool, partial(pool.time_ns, counters.program, 20 * runs))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert quiet[0] < MOST_WAITED
    assert busy[len(busy) // 2] > 5 * MOST_WAITED


def test_ping_pong_takes_some_time():
    assert Counters(1).pool.ping_pong_ns() == 0
    assert Counters(3).pool.ping_pong_ns(rounds=10) > 0


def test_two_pools_run_at_the_same_time():
    def work(counters: Counters) -> None:
        for _ in range(200):
            counters.pool.run(counters.program)

    pair = [Counters(2, "linger"), Counters(2, "linger")]
    threads = [threading.Thread(target=work, args=[counters]) for counters in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [list(counters.counts) for counters in pair] == [[200] * 8] * 2


def test_one_pool_serialises_its_callers():
    counters = Counters(2, "linger")
    threads = [
        threading.Thread(target=counters.pool.time_ns, args=[counters.program, 100])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert list(counters.counts) == [400] * 8


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    counters = Counters(2)
    counters.pool.run(counters.program)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            counters.pool.run(counters.program)
            counters.pool.close()
            code = 0 if list(counters.counts) == [2] * 8 else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    counters.pool.run(counters.program)
    assert list(counters.counts) == [2] * 8


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_during_a_run_leaves_the_child_usable():
    counters = Counters(2, "linger")
    runner = threading.Thread(target=counters.pool.time_ns, args=[counters.program, 3000])
    runner.start()
    codes = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            counters.pool.run(counters.program)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    runner.join(60)
    assert codes == [0] * 5
    # A measurement that takes long ends early: every kernel has run as often as the others.
    assert len(set(counters.counts)) == 1
    assert 0 < counters.counts[0] <= 3000


@pytest.mark.slow(1)
def test_control_c_ends_a_long_measurement(tmp_path):
    script = tmp_path / "measure.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import signal
            import sys
            # Ignored where the tests run in the background of a shell, and then inherited.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.path[:0] = {sys.path!r}
            import importlib.util
            spec = importlib.util.spec_from_file_location("t", {__file__!r})
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            counters = module.Counters(2, "linger")
            print("ready", flush=True)
            counters.pool.time_ns(counters.program, 10**9)
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode != 0
    assert "KeyboardInterrupt" in errors
