"""Stages of Ansor's search: points where TVM's C++ code waits for a gate.

Each round is search, then slices of build and run, then an update of the cost model. Search begins
where the task scheduler names the next task, and ends with the first build. TVM looks up builder
and local runner by name for every slice, so ours take those names meanwhile and call TVM's. Results
are in the log before the device is free for others.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm.auto_scheduler import XGBModel, measure
from tvm.auto_scheduler.measure import MeasureErrorNo, MeasureResult

from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.support.stage_gate import GrantedStage, StageGate, StageKind, StageNeed
from tvm_ios.tuning.ansor.measure import runner
from tvm_ios.tuning.ansor.workers import limited_workers
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.measured_batch import (
    BatchDevice,
    device_answers,
    measure_batch,
)
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.remote import require_device
from tvm_ios.tuning.watched_device import watched_device

__all__ = ["AnsorStages", "StagedModel"]

DEATHS = frozenset(
    {MeasureErrorNo.COMPILE_DEVICE, MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT}
)
"""Errors of a candidate whose worker or device died or hung; a wrong candidate has the same."""
WORKER_DIED = "ChildProcessError"
ANSWER_S = 10.0


@dataclass(slots=True, kw_only=True)
class AnsorStages:
    """Stages of one search; :meth:`installed` makes TVM pass them."""

    gate: StageGate
    options: TuningOptions
    device: DeviceOptions
    gpu: bool
    hear: Callable[[], None]
    """Ends the search after Ctrl-C, before a slice is built; an exception of it does so."""
    keep: Callable[[Sequence[Any], Sequence[Any]], None]
    """Writes a measured batch into the log and reports it; an exception of it ends the search."""
    _task: str = field(default="", init=False)
    _search: ExitStack = field(default_factory=ExitStack, init=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _own_runner: Any = field(default=None, init=False)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Context in which TVM builds, runs and updates when the gate allows."""
        ours = {
            "auto_scheduler.local_builder.build": (self._build, measure.local_builder_build),
            "auto_scheduler.local_runner.run": (self._run, measure.local_run),
        }
        with self._open, self._search:
            try:
                for name, (gated, _) in ours.items():
                    tvm.register_func(name, gated, override=True)
                yield
            finally:
                for name, (_, stock) in ours.items():
                    tvm.register_func(name, stock, override=True)

    def begin_search(self, task: str) -> None:
        """Begin the search for a task's next candidates; ends with their build."""
        self._search.close()
        self._task = task
        need = StageNeed(kind=StageKind.SEARCH, most_cores=self.gate.most_cores, task=task)
        self._search.enter_context(self.gate.stage(need))

    @contextmanager
    def update(self) -> Iterator[int]:
        """Context to train the cost model in, with the number of threads for it."""
        self._search.close()
        # As many as TVM takes at most.
        most = max(1, multiprocessing.cpu_count() // 2)
        need = StageNeed(kind=StageKind.UPDATE, most_cores=most, task=self._task)
        with self.gate.stage(need) as granted:
            yield min(most, len(granted.cores))

    def _build(self, inputs: Sequence[Any], *how: Any) -> list[Any]:
        """Builder for a slice: TVM's, with as many candidates at a time as there are cores."""
        self._search.close()
        self.hear()
        need = StageNeed(kind=StageKind.BUILD, most_cores=len(inputs), task=self._task)
        with self.gate.stage(need) as granted:
            built = self._built(inputs, granted, how)
            dead = [at for at, one in enumerate(built) if WORKER_DIED in str(one.error_msg)]
            if dead and granted.second_try:
                again = self._built([inputs[at] for at in dead], granted, how)
                for at, one in zip(dead, again, strict=True):
                    built[at] = one
        return built

    def _built(self, inputs: Sequence[Any], granted: GrantedStage, how: Sequence[Any]) -> list[Any]:
        timeout, most, function, verbose = how
        # The pool is always as wide as most, and kept; who has fewer cores hands over fewer.
        at_a_time = len(inputs) if len(granted.cores) >= most else len(granted.cores)
        return [
            one
            for begin in range(0, len(inputs), at_a_time)
            for one in measure.local_builder_build(
                inputs[begin : begin + at_a_time], timeout, most, function, verbose
            )
        ]

    def _run(self, inputs: Sequence[Any], built: Sequence[Any], *how: Any) -> list[Any]:
        """Runner for a slice: TVM's, with results in the log."""
        with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
            artefacts = _Artefacts(built=built, folder=Path(folder))

            def run(granted: GrantedStage, places: Sequence[int]) -> Iterable[Any]:
                artefacts.restore(places)
                chosen = [inputs[at] for at in places], [built[at] for at in places]
                return self._measured(granted, *chosen, how)

            device = BatchDevice(
                run=run,
                died=_died,
                lost=self._lost,
                keep=lambda places, results: self.keep([inputs[at] for at in places], results),
            )
            cores = self.device.cores_for(self.options.threads, gpu=self.gpu)
            need = StageNeed.to_profile(cores, self._task)
            return measure_batch(self.gate, need, len(inputs), device)

    def _measured(
        self,
        granted: GrantedStage,
        inputs: Sequence[Any],
        built: Sequence[Any],
        how: Sequence[Any],
    ) -> Iterable[Any]:
        if granted.address:
            return (
                self._measured_there(granted.address, one, code, how)
                for one, code in zip(inputs, built, strict=True)
            )
        if not self.gpu and not self.device.is_remote:
            return list(measure.local_run(inputs, built, *how))
        if self._own_runner is None:
            own = runner(self.options, self.device, gpu=self.gpu)
            self._own_runner = self._open.enter_context(own)
        return list(self._own_runner.run(inputs, built, 0))

    def _measured_there(self, address: str, one: Any, code: Any, how: Sequence[Any]) -> Any:
        """Measure a candidate on a tracker's device that is ours alone."""
        device = DeviceAddress.granted(address)
        where = device.key, device.host, device.port, 1, 1
        try:
            with (
                limited_workers(2 * self.options.run_timeout_s(gpu=self.gpu) + ANSWER_S) as pools,
                watched_device(device, lambda: tuple(pools)),
            ):
                return measure.rpc_runner_run([one], [code], *where, *how)[0]
        except AssertionError:  # TVM takes every end of a worker for a timeout
            return MeasureResult(
                (measure.MAX_FLOAT,),
                MeasureErrorNo.RUNTIME_DEVICE,
                "the worker that asks the device died",
                code.time_cost,
                time.time(),
            )

    def _lost(self, granted: GrantedStage) -> bool:
        """True if the device is lost; TuningError if it is the one that the call named."""
        if granted.address:
            return not device_answers(DeviceAddress.granted(granted.address))
        require_device(self.device)
        return False


class StagedModel(XGBModel):  # type: ignore[misc]
    """TVM's cost model, trained in stages of its own."""

    def __init__(self, stages: AnsorStages, *, num_warmup_sample: int) -> None:
        self._stages = stages
        super().__init__(num_warmup_sample=num_warmup_sample)

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Train with measurements; TVM calls this."""
        with self._stages.update() as threads:
            self.xgb_params["nthread"] = threads
            super().update(inputs, results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Artefacts:
    """Copies of built candidates, since TVM's runners delete what they have run."""

    built: Sequence[Any]
    folder: Path

    def restore(self, places: Sequence[int]) -> None:
        """Restore candidates' files, so that they can be run for the first time or again."""
        for at in places:
            copy = self.folder / str(at)
            original = Path(str(self.built[at].filename)).parent
            if self.built[at].error_no:
                continue
            if not copy.exists():
                shutil.copytree(original, copy)
            elif not original.exists():
                shutil.copytree(copy, original)


def _died(result: Any) -> bool:
    """True if a candidate's worker or device died or hung."""
    return int(result.error_no) in DEATHS
