"""Builders and runners of Ansor's candidates, and the way of results into the log."""

from __future__ import annotations

import contextlib
import io
import math
import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from tvm import auto_scheduler
from tvm.auto_scheduler.measure_record import dump_record_to_string

from tvm_ios.errors import TuningError
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.remote import parse_tracker

__all__ = [
    "Interruption",
    "builder",
    "lines_of",
    "local_runner",
    "runner",
]


class Interruption:
    """Ctrl-C during a search, kept for TVM's C++ code, which would lose the exception."""

    def __init__(self) -> None:
        self.seen = False

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Context that remembers Ctrl-C, and raises it at the end; a second one is raised at once.

        Another handler of Ctrl-C than Python's own hears all of them.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # signals go to the main thread
            return

        before = signal.getsignal(signal.SIGINT)

        def remember(number: int, frame: FrameType | None) -> None:
            again, self.seen = self.seen, True
            if callable(before) and (again or before is not signal.default_int_handler):
                before(number, frame)

        signal.signal(signal.SIGINT, remember)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        if self.seen:
            raise KeyboardInterrupt


def builder(options: TuningOptions, width: int) -> auto_scheduler.LocalBuilder:
    """TVM's builder: as many processes as its width, with a time limit for each candidate."""
    # TVM takes whole seconds, and half a second rounded down would be no time at all.
    return auto_scheduler.LocalBuilder(timeout=math.ceil(options.build_timeout_s), n_parallel=width)


def local_runner(options: TuningOptions, *, gpu: bool) -> auto_scheduler.LocalRunner:
    """TVM's runner with a process on this machine."""
    return auto_scheduler.LocalRunner(**_how(options, gpu=gpu))


@contextlib.contextmanager
def runner(options: TuningOptions, device: DeviceOptions, *, gpu: bool = False) -> Iterator[Any]:
    """TVM's runner for this machine's GPU, or for a device of an RPC tracker.

    A kernel that crashes takes its process's GPU context along, and every later candidate would
    fail; TVM's own tracker on loopback forks a process for each.

    The cache is not flushed between runs: that would set ``number`` to 1 and ``min_repeat_ms`` to
    0, and in repeated runs of a network the weights do lie in the cache.
    """
    common = _how(options, gpu=gpu)
    if device.rpc_tracker is None:
        context = auto_scheduler.LocalRPCMeasureContext(**common)
        try:
            yield context.runner
        finally:
            del context  # its end stops tracker and server
        return
    host, port = parse_tracker(device.rpc_tracker)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it says there that it got a device
            chosen = auto_scheduler.RPCRunner(device.rpc_key, host, port, **common)
    except RuntimeError as error:
        raise TuningError(
            f"the RPC tracker at host {host!r}, port {port} has devices with key "
            f"{device.rpc_key!r}, but gave none within {common['timeout']} s; see who uses them "
            f"with: python -m tvm.exec.query_rpc_tracker --host {host} --port {port}"
        ) from error
    yield chosen


def lines_of(inputs: Sequence[Any], results: Sequence[Any]) -> list[str]:
    """Lines that stock TVM would write into a log, one a candidate."""
    return [
        dump_record_to_string(measured, result).strip()
        for measured, result in zip(inputs, results, strict=True)
    ]


def _how(options: TuningOptions, *, gpu: bool) -> dict[str, int]:
    """Measuring options that all runners of TVM take."""
    return {
        "timeout": math.ceil(options.run_timeout_s(gpu=gpu)),
        "number": options.number,
        "repeat": options.repeat,
        "min_repeat_ms": options.min_repeat_ms,
    }
