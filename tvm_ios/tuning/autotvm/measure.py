"""Builder and runner of AutoTVM's candidates, on the device of a call or of a gate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import tvm
from tvm import autotvm
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import MeasureErrorNo, MeasureResult
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker
from tvm.rpc.server import _popen_start_rpc_server
from tvm.rpc.tracker import _popen_start_tracker_server

from tvm_ios.errors import DeviceLostError, TuningError
from tvm_ios.kernels.vector_math import arithmetic_lowering
from tvm_ios.runtime.rpc.address import WAIT_LIMIT_S, DeviceAddress
from tvm_ios.support.exact_bits import bits_may_change
from tvm_ios.support.stage_gate import GrantedStage
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.measured_batch import ask_device, device_answers
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.remote import parse_tracker, require_device, require_tracker
from tvm_ios.tuning.watched_device import watched_device

__all__ = ["Measuring", "died", "in_tuning"]

USES = 100
"""Candidates after which a building worker is replaced; it grows with each."""
DEATHS = frozenset({MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT})
"""Errors of a candidate whose worker or device died or hung; a wrong candidate has the same."""

REGISTER_S = 30.0
"""Seconds until the tracker has to know a server of ours."""
_HERE = "127.0.0.1"


def died(result: Any) -> bool:
    """True if a candidate's worker or device died or hung."""
    return result.error_no in DEATHS


@dataclass(slots=True, kw_only=True)
class Measuring:
    """Builder and runner of one tuning run; a context manager that ends what they started.

    TVM's LocalRunner would start a tracker and a server for each task, a process each. Here one
    process with both serves all tasks, since a process imports TVM, which takes longer than a batch
    of small candidates. It starts when the first candidate is to run on this machine's own device.
    """

    options: TuningOptions
    device: DeviceOptions
    gpu: bool
    width: int
    """Number of candidates of a batch."""
    _builder: autotvm.LocalBuilder = field(init=False)
    _runner: autotvm.RPCRunner = field(init=False)
    _pair: PopenWorker | None = field(default=None, init=False)
    """Process of our own tracker and server."""
    _pair_port: int = field(default=0, init=False)
    """Port of our own tracker."""
    _checks: dict[str, Any] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        options = self.options
        # TVM allows several candidates at a time with do_fork only.
        self._builder = autotvm.LocalBuilder(
            timeout=options.build_timeout_s, n_parallel=self.width, do_fork=True
        )
        if not self.gpu and bits_may_change():
            self._builder.build_func = ArithmeticBuild(self._builder.build_func)
        # One set of workers for all tasks.
        self._builder.executor = PopenPoolExecutor(
            timeout=options.build_timeout_s,
            initializer=reset_global_scope,
            initargs=(AutotvmGlobalScope.current,),
            maximum_process_uses=USES,
        )
        # Devices under one key measure candidates at a time; a device that is ours, one by one.
        self._runner = autotvm.RPCRunner(
            "",
            None,
            None,
            n_parallel=None if self.device.is_remote else 1,
            timeout=options.run_timeout_s(gpu=self.gpu),
            number=options.number,
            repeat=options.repeat,
            min_repeat_ms=options.min_repeat_ms,
            cooldown_interval=0.0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_pair()

    @property
    def needs_limits(self) -> bool:
        """True if the device has to be asked for its limits before anything is built."""
        return self.gpu and self._checks is None

    def learn_limits(self, granted: GrantedStage, task: autotvm.task.Task) -> None:
        """Ask the device for the limits of its kernels; a CPU has none."""
        question = partial(_limits_of_kernels, str(task.target))
        deadline = time.monotonic() + REGISTER_S
        while self._checks is None:
            try:
                self._checks = ask_device(self._address(granted), question, limit_s=WAIT_LIMIT_S)
            except DeviceLostError:
                # A server of ours, just started, is not registered at once.
                if self._pair is None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def build(self, granted: GrantedStage, inputs: Sequence[Any]) -> list[Any]:
        """Results of compiling candidates, as many at a time as there are cores.

        Each is TVM's ``BuildResult``, or a ``MeasureResult`` where it failed. Artefacts stay until
        the next call: a batch may be measured again until then.
        """
        self._builder.n_parallel = len(granted.cores)
        self._builder.set_task(inputs[0].task, self._checks or {"checks": {}})
        built: list[Any] = self._builder.build(inputs)
        dead = [one for one in built if isinstance(one, MeasureResult) and died(one)]
        if dead and granted.second_try:
            built = self._builder.build(inputs)  # all: it has deleted what was built before
        return built

    def run(
        self, granted: GrantedStage, inputs: Sequence[Any], built: Sequence[Any]
    ) -> Iterator[Any]:
        """Results of compiled candidates on the granted device; one by one on a gate's device."""
        address = self._address(granted)
        self._runner.key, self._runner.host = address.key, address.host
        self._runner.port = address.port
        if not granted.address:
            yield from self._runner.run(inputs, built)
            return
        for one, code in zip(inputs, built, strict=True):
            with watched_device(address, lambda: (self._runner.executor,)):
                results = self._runner.run([one], [code])
            yield from results

    def lost(self, granted: GrantedStage) -> bool:
        """True if the device is gone."""
        if granted.address:
            return not device_answers(DeviceAddress.granted(granted.address))
        if self.device.is_remote:
            require_device(self.device)
            return False
        try:
            require_tracker(f"{self._runner.host}:{self._runner.port}", self._runner.key)
        except TuningError:
            self._end_pair()
            return True
        return False

    def _address(self, granted: GrantedStage) -> DeviceAddress:
        if granted.address:
            return DeviceAddress.granted(granted.address)
        if self.device.rpc_tracker is not None:
            host, port = parse_tracker(self.device.rpc_tracker)
            return DeviceAddress(host=host, port=port, key=str(self.device.rpc_key))
        if self._pair is None:
            self._start_pair()
        port = self._pair_port
        return DeviceAddress(host=_HERE, port=port, key=_own_key(port))

    def _start_pair(self) -> None:
        self._pair = PopenWorker()
        # As TVM's LocalRunner does; a port somebody else takes meanwhile is passed over.
        common = {"host": _HERE, "port": 9000, "port_end": 10000, "silent": True}
        self._pair.send(_popen_start_tracker_server, kwargs=common)
        self._pair_port, _ = self._pair.recv()
        tracker = {
            "tracker_addr": (_HERE, self._pair_port),
            "key": _own_key(self._pair_port),
        }
        self._pair.send(_popen_start_rpc_server, kwargs=common | tracker)
        self._pair.recv()

    def _end_pair(self) -> None:
        if self._pair is not None:
            self._pair.kill()
            self._pair = None


@dataclass(frozen=True, slots=True)
class ArithmeticBuild:
    """TVM's function that builds a candidate, with vector mathematics as kernels have."""

    build: Callable[..., Any]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Result of TVM's function; called in a worker."""
        with arithmetic_lowering():
            return self.build(*arguments, **options)


def _limits_of_kernels(target: str, host: str, port: int, key: str) -> dict[str, Any]:
    """Limits by which TVM's builders check kernels."""
    runner = autotvm.RPCRunner(key, host, port)
    runner.task = SimpleNamespace(target=tvm.target.Target(target))
    limits: dict[str, Any] = runner.get_build_kwargs()
    return limits


def _own_key(port: int) -> str:
    """Key of this machine's own device, as TVM's LocalRunner names it."""
    return f"$local$device${port}"


@contextlib.contextmanager
def in_tuning() -> Iterator[None]:
    """Context in which templates are instantiated as AutoTVM does while it tunes."""
    autotvm.GLOBAL_SCOPE.in_tuning = True
    try:
        yield
    finally:
        autotvm.GLOBAL_SCOPE.in_tuning = False
