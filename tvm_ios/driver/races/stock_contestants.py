"""Stock TVM as contestants: on one thread, on all, and on our lanes, raced against our models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import LinkedKernels, ModelKernels
from tvm_ios.devices.local import LocalCpu
from tvm_ios.errors import ModelError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.profile.race import race
from tvm_ios.report.contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.runtime.artifact.factory import ExecutableFactory
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.runtime.base.tvm_names import IS_FFI
from tvm_ios.runtime.cpu.stock_executor import StockExecutor, StockMachine

__all__ = ["STOCK_ALL", "STOCK_LANES", "STOCK_ONE", "race_with_stock", "stock_kernels"]

STOCK_LANES = "TVM on our launch path"


def stock_kernels(mod: Any, params: Any = None, target: Any = None) -> LinkedKernels:
    """Kernels of a model as stock TVM builds it: Relay without our rewrites, Relax by default.

    Raises
    ------
    ModelError
        If TVM cannot compile the model.
    """
    if not IS_FFI:
        from tvm_ios.compile.built_model import build_model  # noqa: PLC0415 - imports Relay

        return build_model(mod, params, target, sink=False).kernels
    from tvm_ios.relax.target import resolve_target  # noqa: PLC0415 - imports Relax

    chosen = resolve_target(target)
    if params:
        mod = tvm.relax.transform.BindParams("main", dict(params))(mod)
    try:
        executable = tvm.compile(mod, target=chosen)
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"stock TVM cannot compile this module: {str(error).splitlines()[-1]}"
        ) from error
    return LinkedKernels(ExecutableFactory(executable, chosen, {}), {}, chosen)


def _stock_runs(
    plain: LinkedKernels, inputs: Mapping[str, Any], lanes: int
) -> StockExecutor | StockMachine:
    """Executor of stock TVM with its inputs set."""
    if not isinstance(plain, ModelKernels):
        return StockMachine(plain.library, inputs, lanes=lanes)
    staged = plain.staged
    executor = StockExecutor(staged.graph_json, plain.library, staged.params, lanes=lanes)
    for name, value in inputs.items():
        executor.set_input(name, value)
    return executor


def race_with_stock(
    plain: LinkedKernels,
    models: Mapping[str, CompiledModel],
    *,
    lanes: int,
    options: CompareOptions | None,
    on_lanes: bool = False,
    others: Mapping[str, TimedRuns] = MappingProxyType({}),
) -> Comparison:
    """Time stock TVM and compiled models on the same inputs, interleaved.

    ``plain`` is the network as :func:`stock_kernels` builds it, ``models`` as we run it, by
    contestant; ``others`` are more contestants, with inputs set.
    """
    first = next(iter(models.values()))
    inputs = sample_inputs(first.plan, first.kernels.params)
    with closing(_stock_runs(plain, inputs, lanes)) as stock:
        timed: dict[str, TimedRuns] = {
            STOCK_ONE: partial(stock.time_ns, threads=1),
            STOCK_ALL: partial(stock.time_ns, threads=lanes),
        }
        if on_lanes:
            timed[STOCK_LANES] = stock.time_on_lanes_ns
        with LocalCpu().open() as session:
            return race(models, {**timed, **others}, options=options, session=session)
