"""A pool of lanes and the programs it runs: the native executor, from Python."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.host.processor import usable_cores
from tvm_ios.host.run_delay import RunDelay
from tvm_ios.runtime.base.native_runtime import NativeRuntime, NativeTraceRow, PoolOptions
from tvm_ios.support.whole_number import as_whole, require_whole, require_whole_fields

if TYPE_CHECKING:
    from tvm_ios.runtime.base.loaded_plan import LoadedPlan

__all__ = [
    "LaneOptions",
    "LanePool",
    "LaneProgram",
    "LaunchFailedError",
    "require_lanes",
]

_CHUNK_NS = 50_000_000
"""Nanoseconds after which a native call is cut, so that Ctrl-C is heard."""
_ENOUGH_NS = 250_000_000
"""Nanoseconds after which a timing is extrapolated. On an overloaded machine lanes wait for each
other for whole time slices, and runs of a millisecond take minutes."""

_MOST_TASKS = 1000
"""Limit of tasks a lane in a parallel region; more only cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOptions:
    """Options of lanes: how they share work and wait.

    Raises
    ------
    OptionError
        If a number is too small, or none.
    """

    tasks_per_lane: int = 2
    """Tasks a lane that a parallel region is split into."""
    spin_us: int = 150
    """Microseconds that lanes spin after a run before they sleep."""
    barriers: bool = False
    """True starts a stage of a plan only when the one before is complete, as its price assumed;
    False lets a group start once the groups it depends on are complete."""
    oversubscribe: bool = False
    """True allows more lanes than cores: for tests only, spinning lanes then steal time."""
    jitter_seed: int = 0
    """Seed of random delays before launches, claims and tasks, for tests; 0 for no delays."""

    def __post_init__(self) -> None:
        require_whole_fields(self, tasks_per_lane=1, spin_us=0, jitter_seed=0)
        if self.tasks_per_lane > _MOST_TASKS:
            raise OptionError(f"tasks_per_lane is {self.tasks_per_lane}; give 1 to {_MOST_TASKS}")


_open: weakref.WeakSet[LanePool] = weakref.WeakSet()


@atexit.register
def _close_pools() -> None:
    """Wait for runs of daemon threads; those that begin later raise ExecutionError.

    Nothing is freed at exit: such a thread may be on its way into native code.
    """
    for pool in tuple(_open):
        pool.close()


class LaunchFailedError(ExecutionError):
    """Error of a kernel; `position` is the number of its launch in program order."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(text)
        self.position = position
        self.text = text


def require_lanes(lanes: int, cores: int, owner: str) -> int:
    """A number of lanes that a CPU can have; OptionError if below one or above its cores.

    ``owner`` says whose cores they are, with a verb, such as ``"this process may use"``.
    """
    number = as_whole(lanes)
    if number is None or not 1 <= number <= cores:
        raise OptionError(f"lanes is {lanes!r}, but {owner} {cores} cores; give 1 to {cores}")
    return number


def _join_rows(rows: Iterable[Iterable[int]], kind: str) -> tuple[array[int], array[int]]:
    """Rows one after the other, and where each begins; a last number says where the last row ends.

    ``kind`` is a type code of :mod:`array`, such as ``"Q"`` for addresses.
    """
    joined, begins = array(kind), array("i", [0])
    for row in rows:
        joined.extend(row)
        begins.append(len(joined))
    return joined, begins


class LaneProgram:
    """Groups of prepared launches with their order; belongs to the pool that made the program."""

    def __init__(self, runtime: NativeRuntime, handle: int | None, kept: object) -> None:
        if not handle:
            raise ExecutionError("no memory for a program of groups; free some")
        self.handle = handle
        self._kept = kept
        weakref.finalize(self, _free_program, runtime, handle).atexit = False


class LanePool:
    """W lanes: the calling thread and W - 1 threads, started by the first run.

    ``runtime`` is the executor whose programs and plans they run. ``get_last_error`` is the address
    of a C function that returns the text of the calling thread's last error; or 0.
    """

    place = ""
    """Place of the lanes in messages; empty for this process."""

    def __init__(
        self,
        runtime: NativeRuntime,
        lanes: int,
        options: LaneOptions | None = None,
        *,
        get_last_error: int = 0,
    ) -> None:
        options = LaneOptions() if options is None else options
        if not isinstance(options, LaneOptions):
            raise OptionError(f"options is a {type(options).__name__}; give LaneOptions")
        self.lanes = require_whole("lanes", lanes, least=1)
        self.runtime = runtime
        self._handle = self._create(options, get_last_error)
        if not self._handle:
            raise ExecutionError(f"no memory for a pool of {lanes} lanes; free some and try again")
        self._finalizer = weakref.finalize(self, _free_pool, runtime, self._handle)
        self._finalizer.atexit = False
        self._run_delay = RunDelay()
        self._waited_ns: int | None = 0

    def program(
        self,
        groups: Sequence[Sequence[int]],
        successors: Sequence[Iterable[int]],
        *,
        homes: Sequence[int] | None = None,
    ) -> LaneProgram:
        """Prepare groups of launches to run by dependencies, again and again.

        Parameters
        ----------
        groups
            Addresses of :class:`NativeLaunch` in the order they run; an empty group only orders.
        successors
            For each group the groups that wait for it.
        homes
            Lane that should run each group, if it is free; by turns where omitted.
        """
        if not all(groups):
            waiting = {successor for row in successors for successor in row}
            idle = [n for n, group in enumerate(groups) if not group and n not in waiting]
            if idle:  # nobody would ever complete it
                raise ExecutionError(
                    f"group {idle[0]} has no launches and waits for nothing; leave it out"
                )
        launches, rows = _join_rows(groups, "Q")
        edges, edge_rows = _join_rows(successors, "i")
        wanted = range(len(groups)) if homes is None else homes
        lanes = array("i", [home % self.lanes for home in wanted])
        # The arrays are copied there. The launches are not.
        arrays = (each.tobytes() for each in (launches, rows, edge_rows, edges, lanes))
        handle = self.runtime.program_create(len(groups), *arrays, self.lanes, None)
        return LaneProgram(self.runtime, handle, None)

    def plan_program(
        self,
        plan: LoadedPlan,
        *,
        parts: int = 0,
        poison: bool = False,
        trace: ctypes.Array[NativeTraceRow] | None = None,
    ) -> LaneProgram:
        """Prepare groups of a plan to run by dependencies, again and again.

        ``parts`` has bit *i* set for each part *i* whose groups run; all do where it is 0.
        ``poison`` overwrites outputs before they are written, and dead buffers; ``trace`` has a row
        for each launch that runs.
        """
        rows = None if trace is None else ctypes.addressof(trace)
        handle = self.runtime.plan_program(plan.handle, parts, self.lanes, int(poison), rows)
        return LaneProgram(self.runtime, handle, (plan, trace))

    def run(self, program: LaneProgram, *, number: int = 1, assemble: bool = False) -> None:
        """Run a program `number` times; with `assemble` not before every lane is awake."""
        self._require(
            self.runtime.run(self._handle, program.handle, number, 0, int(assemble), None, None)
        )

    def time_ns(self, program: LaneProgram, number: int) -> int:
        """Nanoseconds of `number` back-to-back runs, every lane awake from the start.

        Extrapolated from the runs of the first quarter of a second. Raises what :meth:`run` does.
        """
        elapsed, done = ctypes.c_int64(), ctypes.c_int64()
        places = (ctypes.byref(elapsed), ctypes.byref(done))
        total, left = 0, number
        before = self._awake_delays_ns()
        while left > 0 and total <= _ENOUGH_NS:
            self._require(
                self.runtime.run(self._handle, program.handle, left, _CHUNK_NS, 1, *places)
            )
            total += elapsed.value
            left -= done.value
        scale = number / max(1, number - left)
        self._count_waits(before, scale)
        return round(total * scale)

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes were ready and had no core, in all timings and ping-pongs so far.

        Of each the wait of the lane that waited longest; None where nobody counts them. A lane that
        spins counts like one that works: whether work would have come to it is not known.
        """
        return self._waited_ns

    def ping_pong_ns(self, rounds: int = 500) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 with one lane."""
        latency = ctypes.c_double()
        before = self._delays_ns()
        self._require(self.runtime.ping_pong(self._handle, rounds, ctypes.byref(latency)))
        self._count_waits(before)
        return latency.value

    def close(self) -> None:
        """Join the threads; later runs raise ExecutionError. May be called twice."""
        if self._finalizer.alive:
            self.runtime.pool_close(self._handle)
            self._run_delay.close()

    def _awake_delays_ns(self) -> tuple[int, ...] | None:
        """Run delay of each lane so far, once all are awake; None where nobody counts it.

        Lanes that slept wait for their core before a timing begins, and that wait is not in it.
        """
        if self._waited_ns is not None:
            latency = ctypes.c_double()
            self._require(self.runtime.ping_pong(self._handle, 1, ctypes.byref(latency)))
        return self._delays_ns()

    def _delays_ns(self) -> tuple[int, ...] | None:
        """Run delay of each lane so far; None where nobody counts it, or threads have not begun."""
        if self._waited_ns is None:
            return None
        threads = (ctypes.c_int32 * self.lanes)()
        self.runtime.pool_threads(self._handle, threads)
        if not all(threads):
            return None
        delays_ns = self._run_delay.read_ns(threads)
        if delays_ns is None:
            self._waited_ns = None
        return delays_ns

    def _count_waits(self, before: tuple[int, ...] | None, scale: float = 1.0) -> None:
        """Add the longest wait of a lane since a reading."""
        after = None if before is None else self._delays_ns()
        if before is not None and after is not None and self._waited_ns is not None:
            grown = (late - early for early, late in zip(before, after, strict=True))
            self._waited_ns += round(max(grown) * scale)

    def _create(self, options: LaneOptions, get_last_error: int) -> int | None:
        """Native pool on the cores of this process; None without memory."""
        cores = usable_cores()
        if not options.oversubscribe:
            require_lanes(self.lanes, len(cores), "this process may use")
        cpus = (ctypes.c_int32 * len(cores))(*cores)
        native = PoolOptions(
            lanes=self.lanes,
            tasks_per_lane=options.tasks_per_lane,
            spin_ns=options.spin_us * 1000,
            jitter_seed=options.jitter_seed,
            get_last_error=get_last_error or None,
            cpus=ctypes.addressof(cpus),
            num_cpus=len(cores),
        )
        _open.add(self)
        handle: int | None = self.runtime.pool_create(ctypes.byref(native))
        return handle

    def _require(self, status: int) -> None:
        # The numbers are those of RUN_DONE and the like in lane_executor.h.
        if status == 0:
            return
        if status == 1:
            text = self.runtime.failed_text().decode(errors="replace")
            raise LaunchFailedError(self.runtime.failed_position(), text)
        if status == 2:
            raise ExecutionError("this executor is closed; load the model again")
        if status == 3:
            raise ExecutionError(
                f"cannot start {self.lanes - 1} threads; raise the limit (ulimit -u) or use "
                "fewer lanes"
            )


def _free_program(runtime: NativeRuntime, handle: int) -> None:
    """Free a program. A function of its own: its arguments keep the native code loaded."""
    runtime.program_free(handle)


def _free_pool(runtime: NativeRuntime, handle: int) -> None:
    runtime.pool_free(handle)
