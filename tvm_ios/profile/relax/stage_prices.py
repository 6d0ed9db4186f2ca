"""Prices of stages of a Relax model, measured on the lanes that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import tvm

from tvm_ios.compile.relax_model import RelaxModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasuredStages
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.runtime.libraries.stage_libraries import LibraryStageRunner, PreparedStage

__all__ = ["RelaxStagePrices"]

ONE_LANE = "@one-lane"
"""End of the workloads of operators that no idle lane helps with."""


class RelaxStagePrices:
    """Cost model that runs stages, each distinct one once; a context manager that stops its lanes.

    Prices come from the database where it has them, and are kept there.
    """

    def __init__(
        self,
        model: RelaxModel,
        *,
        lanes: int,
        session: MeasuringSession,
        database: ProfileDatabase | None = None,
    ) -> None:
        staged, device = model.kernels.staged, session.device
        self._lanes = lanes
        self._rates = device.traits.rates
        self._native: LibraryStageRunner[Any] = session.stage_runner(lanes)
        self._library = self._native.add_library(
            partial(session.export, model.kernels),
            staged.graph,
            staged.params,
            [placement.view for placement in staged.placements],
        )
        self._graphs = {end: self._named(model, end) for end in ("", ONE_LANE)}
        llvm = tvm.target.codegen.llvm_version_major()
        context = ProfileContext(
            device=device.name,
            lanes=lanes,
            tvm_version=f"tvm {tvm.__version__} llvm {llvm}",
            kernels=str(staged.target),
            executor=device.executor_digest,
        )
        self._measured = MeasuredStages(self, context, database=database, patience=session.patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._measured.save()
        self._native.close()

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Latency of each stage in nanoseconds, run by itself with the help of idle lanes."""
        del graph  # the model's own
        return self._measured.price([[(self._graphs[""], stage)] for stage in stages])

    def operators_ns(self, graph: OperatorGraph, *, lanes: int) -> list[int]:
        """Nanoseconds of each operator, alone on one lane or with the help of idle ones."""
        keyed = self._graphs[ONE_LANE if lanes == 1 else ""]
        every = [Stage(((index,),)) for index in range(len(graph))]
        return self._measured.price([[(keyed, stage)] for stage in every])

    def prepare(self, graph: OperatorGraph, stage: Stage) -> PreparedStage:
        """Make a stage ready to run; the graph is one of ours."""
        pairs = [[(self._library, index) for index in group] for group in stage.groups]
        alone = graph.operators[stage.operators[0]].workload.endswith(ONE_LANE)
        guess_ns = sum(self._rates.guess_ns(graph.operators[index]) for index in stage.operators)
        return self._native.prepare(
            pairs,
            unsplit=[pair for group in pairs for pair in group] if alone else (),
            homes=[place % self._lanes for place in range(len(pairs))],
            copies=self._rates.copies(guess_ns),
        )

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        return self._native.ping_pong_ns()

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._native.waited_ns()

    def _named(self, model: RelaxModel, end: str) -> OperatorGraph:
        """Graph whose workloads say what runs: loops, or nothing, which depends on the graph."""
        codes = model.kernels.staged.kernel_codes
        run = [
            "view" if self._native.needs_no_kernel(self._library, index) else code
            for index, code in enumerate(codes)
        ]
        return OperatorGraph(
            model.graph.name,
            tuple(
                replace(operator, workload=f"{operator.workload}@{code}{end}")
                for operator, code in zip(model.graph.operators, run, strict=True)
            ),
        )
