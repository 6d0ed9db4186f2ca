"""Setup of a chain: target, device and options with which its models are tuned, built and timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tvm_ios.compile.model import CompiledModel
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.model_runner import DeviceRunner, LocalRunner, ModelRunner, evaluate
from tvm_ios.driver.chain.service_level import Reached
from tvm_ios.driver.chain.tune_to_level import LevelRequest, tune_to_level, what_is_known
from tvm_ios.driver.dialects.relay_tune import measuring_device
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.tune import tune
from tvm_ios.host import default_lanes
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed, gate_around
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.known_tasks import KnownTasks
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.remote import granted_device

__all__ = ["ChainSetup", "OpenDoor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSetup:
    """Arguments of :func:`tvm_ios.tune` that all calls of a chain share."""

    target: Any
    lanes: int | None
    database: ProfileDatabase | str | Path | None
    options: TuneOptions
    progress: ProgressListener | None

    def device(self) -> MeasuringDevice:
        """Device that models are timed on."""
        return measuring_device(self.target, self.options.device, self._gate)

    def runner(self, model: CompiledModel) -> ModelRunner:
        """Runner of a model that was compiled with this setup, where it was measured."""
        if self.options.device.is_remote:
            return DeviceRunner(model, partial(granted_device, self.options.device))
        return LocalRunner(model)

    def evaluate(self, model: CompiledModel) -> Latency:
        """Latency of a model, whose threads are given back at once."""
        runner = self.runner(model)
        try:
            return self.timed(runner)
        finally:
            runner.close()

    def timed(self, runner: ModelRunner) -> Latency:
        """Latency of a model, taken in a stage of its own if a gate is around the call."""
        remote = self.options.device.is_remote
        cores = 1 if remote else self.device().cores_for(self.lanes or default_lanes())
        with self._gate.stage(StageNeed.to_profile(cores, "evaluate")) as granted:
            latency = evaluate(runner, self.options.compare, granted.address)
        if not granted.device:
            return latency
        leased = ", ".join(map(str, granted.cores)) or "none"
        note = f"leased for it: device {granted.device}, cores {leased}"
        return replace(latency, notes=(*latency.notes, note))

    def tune_to_level(
        self, request: LevelRequest, door: OpenDoor, budget: TimeBudget
    ) -> tuple[Reached[CompiledModel], KnownTasks]:
        """Model of a door tuned to a service level, and the records known before."""
        device = self.device()
        with self._gate.stage(StageNeed.to_prepare(1, "look up records")):
            known = what_is_known(
                door.source, self.target, device, request.tuner, self.options, request.log
            )
        return tune_to_level(request, known, door, self.evaluate, budget=budget), known

    @property
    def _gate(self) -> StageGate:
        return gate_around(OpenGate())


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDoor:
    """Front door for one model: a :class:`~tvm_ios.driver.chain.tune_to_level.FrontDoor`."""

    setup: ChainSetup
    source: ModelSource
    calls: list[Mapping[str, float]]
    """List that gets the seconds by phase of each call."""

    def __call__(
        self,
        kernels: TuningOptions,
        *,
        tuner: str | None,
        records: tuple[Path, ...],
        time_budget: float | None,
    ) -> CompiledModel:
        """Model that was tuned; the arguments are those of :func:`tvm_ios.tune`."""
        setup = self.setup
        model = tune(
            self.source.mod,
            self.source.params,
            setup.target,
            tuning=tuner,
            tuning_records=records or None,
            time_budget=time_budget,
            lanes=setup.lanes,
            database=setup.database,
            progress=setup.progress,
            # A chain's options are for each of its calls, whichever tuner that has.
            options=replace(setup.options, kernels=kernels.used_by(tuner)),
        )
        self.calls.append({} if model.was_loaded else dict(model.report().phase_s))
        return model
