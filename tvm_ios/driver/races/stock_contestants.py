"""Stock TVM as contestants: on one thread, on all, and on our lanes, raced against our models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.devices.local import LocalCpu
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.profile.race import race
from tvm_ios.report.contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.runtime.cpu.stock_executor import StockExecutor

__all__ = ["STOCK_ALL", "STOCK_LANES", "STOCK_ONE", "race_with_stock"]

STOCK_LANES = "TVM on our launch path"


def race_with_stock(
    plain: BuiltModel,
    models: Mapping[str, CompiledModel],
    *,
    lanes: int,
    options: CompareOptions | None,
    on_lanes: bool = False,
    others: Mapping[str, TimedRuns] = MappingProxyType({}),
) -> Comparison:
    """Time stock TVM and compiled models on the same inputs, interleaved.

    ``plain`` is the network as stock TVM builds it, ``models`` as we run it, by contestant;
    ``others`` are more contestants, with inputs set.
    """
    staged = plain.kernels.staged
    first = next(iter(models.values()))
    with closing(
        StockExecutor(staged.graph_json, plain.kernels.library, staged.params, lanes=lanes)
    ) as stock:
        for name, value in sample_inputs(first.plan, first.kernels.params).items():
            stock.set_input(name, value)
        timed: dict[str, TimedRuns] = {
            STOCK_ONE: partial(stock.time_ns, threads=1),
            STOCK_ALL: partial(stock.time_ns, threads=lanes),
        }
        if on_lanes:
            timed[STOCK_LANES] = stock.time_on_lanes_ns
        with LocalCpu().open() as session:
            return race(models, {**timed, **others}, options=options, session=session)
