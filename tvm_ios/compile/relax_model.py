"""Models of Relax: kernels compiled once, and schedules lowered onto them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import tvm

from tvm_ios.compile.chosen_calls import with_chosen_calls
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.compile.plan_of import plan_of
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.devices.local import LocalCpu
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.relax.build import StagedBuild, build
from tvm_ios.relax.extract import Extraction
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.relax.rewrite import rewrite_extraction
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["RelaxModel", "build_prepared", "build_relax"]


@dataclass(frozen=True)
class RelaxModel:
    """Module of Relax with its compiled kernels, before any schedule or with its own."""

    prepared: PreparedModule
    """Module that is prepared, or partitioned."""
    kernels: ModelKernels[StagedBuild]
    name: str = "main"
    libraries: tuple[OperatorLibrary, ...] = ()
    """Operator libraries that compute what they can, the first that can; a schedule that chooses
    for them is followed."""

    @property
    def extraction(self) -> Extraction:
        """Operators of the model, and the IR they stand for."""
        return self.kernels.staged.extraction

    @cached_property
    def graph(self) -> OperatorGraph:
        """Graph of the operators, under the name of the model."""
        return OperatorGraph(self.name, self.extraction.graph.operators)

    def lower(
        self, schedule: InterOpSchedule | None = None, *, lanes: int | None = None
    ) -> CompiledModel:
        """Compiled model of a schedule; of the module's own, or in order, where omitted.

        Lanes are all usable cores where omitted.

        Raises
        ------
        ScheduleError
            If the schedule is for another graph, merges convolutions, or uses an operator library
            that does not compute for this target.
        """
        staged = self.kernels.staged
        chosen = replace(schedule or staged.schedule, low=self.prepared.low)
        placements: Sequence[Placement] = staged.placements
        if schedule is not None:
            verify_schedule(schedule, self.graph)
            placements = placements_for(staged.extraction, schedule)
        placements = with_chosen_calls(staged, placements, chosen, self.libraries)
        return CompiledModel(
            partition=cache(partial(self._partition, chosen)),
            graph=self.graph,
            schedule=chosen,
            plan=plan_of(staged, placements, LocalCpu().require_lanes(lanes)),
            kernels=self.kernels,
        )

    def _partition(self, schedule: InterOpSchedule) -> tvm.IRModule:
        if is_partitioned(self.prepared.module):
            return self.prepared.module
        return rewrite_extraction(self.kernels.staged.extraction, schedule)


def build_relax(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    name: str = "main",
    libraries: Sequence[OperatorLibrary] = (),
) -> RelaxModel:
    """Prepared model of Relax with kernels compiled once.

    A module from ``PrepareModule`` or ``ScheduleOperators`` is taken unchanged; arguments are those
    of :func:`tvm_ios.relax.prepare`, the name is that of the operator graph, and operator libraries
    compute what they can: images get the layout that they are fastest in.
    """
    layout = next((each.image_layout for each in libraries if each.image_layout), None)
    try:
        prepared = prepare(mod, params, target, image_layout=layout)
    # What is wrong in a rule of layouts of TVM's ends in any error of a pass.
    except (RuntimeError, ValueError):
        prepared = prepare(mod, params, target)
    return build_prepared(prepared, name=name, libraries=libraries)


def build_prepared(
    prepared: PreparedModule, *, name: str = "main", libraries: Sequence[OperatorLibrary] = ()
) -> RelaxModel:
    """Prepared model with kernels compiled once; arguments as in :func:`build_relax`."""
    staged = build(prepared.module, prepared.target, extraction=prepared.extraction)
    return RelaxModel(prepared, ModelKernels(staged), name, tuple(libraries))
