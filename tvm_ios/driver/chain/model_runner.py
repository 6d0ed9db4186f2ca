"""Runners of a compiled model for a chain: on threads of this process, or on a shared device.

Inputs are those that users give; outputs are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.devices.protocol import MeasuringDevice, TimedExecutor
from tvm_ios.driver.chain.latency import Latency, measure_latency
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.artifact.artifact import load
from tvm_ios.runtime.base.sample_inputs import sample_inputs

__all__ = ["DeviceRunner", "LoadedRunner", "LocalRunner", "ModelRunner", "evaluate", "run"]


class ModelRunner(Protocol):
    """A compiled model that can be run and timed."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that are no parameters, in order."""
        ...

    def open(
        self, address: str = ""
    ) -> AbstractContextManager[tuple[ExecutionPlan, TimedExecutor]]:
        """Context with the plan and an executor of it, whose parameters are set.

        ``address`` is that of a stage's device, as ``GrantedStage.address``.
        """
        ...

    def close(self) -> None:
        """Give back threads and memory; a later :meth:`open` takes them again."""
        ...


class _Kept:
    """Runner with an executor of this process, made on first use and kept."""

    def __init__(self, inputs: tuple[str, ...], make: Callable[[], Any]) -> None:
        self.inputs = inputs
        self._make = make
        self._executor: Any = None

    @contextmanager
    def open(self, address: str = "") -> Iterator[tuple[ExecutionPlan, TimedExecutor]]:
        """Context with the plan and its executor."""
        del address
        if self._executor is None:
            self._executor = self._make()
        yield self._executor.plan, self._executor

    def close(self) -> None:
        """Join the executor's threads; a later :meth:`open` makes new ones."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None


class LocalRunner(_Kept):
    """Runner of a model that was compiled in this process, for this machine."""

    def __init__(self, model: CompiledModel) -> None:
        super().__init__(_inputs_of(model), model.executor)


class LoadedRunner(_Kept):
    """Runner of a model in a file, which is read at once, so that an unfit one is refused."""

    def __init__(self, library: Path, inputs: tuple[str, ...], *, lanes: int | None) -> None:
        super().__init__(inputs, lambda: load(library, lanes=lanes))
        with self.open():
            pass


class DeviceRunner:
    """Runner of a model on a device that others wait for: held only during each use."""

    def __init__(self, model: CompiledModel, device: Callable[[str], MeasuringDevice]) -> None:
        self.inputs = _inputs_of(model)
        self._model = model
        self._device = device

    @contextmanager
    def open(self, address: str = "") -> Iterator[tuple[ExecutionPlan, TimedExecutor]]:
        """Context with the plan and an executor of it, on the device."""
        device = self._device(address)
        with device.open() as session, closing(session.executor(self._model)) as executor:
            # Large parameters are made-up numbers on a device, which do for timing alone.
            for name, value in self._model.kernels.params.items():
                executor.set_input(name, value)
            yield self._model.plan, executor

    def close(self) -> None:
        """Do nothing: no device is held between uses."""


def run(runner: ModelRunner, x: Any) -> tuple[np.ndarray, ...]:
    """Copies of a model's outputs for the array of its only input, or for a mapping by name."""
    named = _named_inputs(x, runner.inputs)
    with runner.open() as (_, executor):
        for name, value in named.items():
            executor.set_input(name, value)
        executor.run()
        count = executor.get_num_outputs()
        return tuple(_copied(executor.get_output(index)) for index in range(count))


def evaluate(runner: ModelRunner, options: CompareOptions, address: str = "") -> Latency:
    """Latency of a model on made-up inputs, timed alone; ``address`` as for its ``open``."""
    with runner.open(address) as (plan, executor):
        params = {entry.name for entry in plan.inputs} - set(runner.inputs)
        return measure_latency(executor, sample_inputs(plan, params), options)


def _inputs_of(model: CompiledModel) -> tuple[str, ...]:
    params = model.kernels.params
    return tuple(entry.name for entry in model.plan.inputs if entry.name not in params)


def _named_inputs(x: Any, names: Sequence[str]) -> dict[str, Any]:
    told = ", ".join(map(repr, names)) or "none"
    if not isinstance(x, Mapping):
        if len(names) != 1:
            raise OptionError(
                f"one array was given for {len(names)} inputs; give a mapping of {told}"
            )
        return {names[0]: x}
    unknown = [name for name in x if name not in names]
    missing = [name for name in names if name not in x]
    if unknown or missing:
        wrong = f"no input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing"
        raise OptionError(f"{wrong}; the inputs are {told}")
    return dict(x)


def _copied(value: Any) -> np.ndarray:
    return np.array(value.numpy() if isinstance(value, tvm.nd.NDArray) else value)
