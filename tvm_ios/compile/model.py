"""Compiled models: kernels, a schedule on them, and the executor that runs it.

The last nouns before running: :class:`ModelKernels` is compiled code of one module, shared by all
schedules that merge nothing; :class:`CompiledModel` is one schedule on such kernels.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.targets import require_known_target
from tvm_ios.errors import DatabaseError, OptionError, ScheduleError
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.plan.lanes import CORES, STREAMS, HandOver
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.verify import verify_plan
from tvm_ios.relay import (
    Extraction,
    PreparedModule,
    StagedBuild,
    build,
    placements_for,
    prepare,
    read_schedule,
    rewrite_extraction,
)
from tvm_ios.relay.functions.library_calls import with_library_calls
from tvm_ios.relay.inputs import CheckedModule, check_parameters, resolve_target
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.artifact.artifact import export_artifact
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.artifact.plan_executor import plan_executor
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.cpu.lane_pool import LaneOptions
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.open_libraries import uses_libraries
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

if TYPE_CHECKING:
    from tvm_ios.tuning.records.records_in_force import RecordsInForce

__all__ = [
    "BuiltModel",
    "CompiledModel",
    "ModelKernels",
    "build_model",
    "build_prepared",
    "hand_over_of",
    "lower_partitioned",
    "lower_schedule",
    "widest_stage",
]


class ModelKernels:
    """Compiled kernels of one module in a file of their own, loaded when first needed.

    The file lives as long as this object; executors keep what they have loaded.
    """

    def __init__(self, staged: StagedBuild) -> None:
        self.staged = staged
        self._folder = Path(tempfile.mkdtemp(prefix="tvm-ios-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @cached_property
    def path(self) -> Path:
        """The exported kernels, without parameters."""
        path = self._folder / "kernels.so"
        self.staged.factory.get_lib().export_library(str(path))
        return path

    @cached_property
    def library(self) -> KernelLibrary:
        """The kernels, loaded, their parallel launches sent to our lanes."""
        return KernelLibrary(self.path, shared_runtime())


@dataclass(frozen=True)
class BuiltModel:
    """A prepared module and its kernels, before any schedule."""

    prepared: PreparedModule
    kernels: ModelKernels
    name: str = "main"
    libraries: tuple[OperatorLibrary, ...] = ()
    """Libraries that may compute operators of it, in place of TVM's kernels."""

    @property
    def extraction(self) -> Extraction:
        """The operators, and the IR they stand for."""
        return self.kernels.staged.extraction

    @cached_property
    def graph(self) -> OperatorGraph:
        """The operators that are scheduled, under the name of the model."""
        return OperatorGraph(self.name, self.extraction.graph.operators)


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledModel:
    """A model with its inter-operator schedule, compiled."""

    partition: Callable[[], tvm.IRModule]
    """Writes :attr:`module`, which takes seconds for a large network, when it is asked for."""
    graph: OperatorGraph
    """Operators that were scheduled; of a module partitioned before, those of its kernels."""
    schedule: InterOpSchedule
    plan: ExecutionPlan
    kernels: ModelKernels
    notes: tuple[str, ...] = ()
    """Lines a user should know on how the module was prepared."""
    tune_report: TuneReport | None = None
    records: RecordsInForce | None = None
    """Tuning records that its kernels have; None where nobody gave any."""
    evidence: Evidence | None = None
    """What ``tune`` measured of it; None where its schedule was given."""

    @property
    def module(self) -> tvm.IRModule:
        """The partitioned module: one function a stage. Plain ``relay.build`` runs it too."""
        return self.partition()

    @property
    def on_gpu(self) -> bool:
        """True if it was compiled for a GPU."""
        return is_gpu_target(self.kernels.staged.target)

    def executor(
        self,
        device: Any = None,
        *,
        lanes: int | None = None,
        options: LaneOptions | None = None,
        cuda_graph: bool = True,
    ) -> MultiStreamGraphModule | CudaGraphModule:
        """Run the model in this process, with the interface of TVM's ``GraphModule``.

        Parameters
        ----------
        device
            ``tvm.cpu()``, or a GPU such as ``tvm.cuda(0)`` if it was compiled for one; may be
            omitted.
        lanes
            Threads, the caller's included; what the model was compiled for where omitted. Not for
            GPUs, whose streams are those it was compiled for.
        options
            How lanes share work and wait; not for GPUs.
        cuda_graph
            On a GPU, True replays a run in one launch and False issues every kernel.

        Raises
        ------
        OptionError
            If the device is another one than it was compiled for, there are more lanes than cores,
            or lanes of a GPU.
        HostError
            If there is no driver, no such GPU, or one that does not run this code.
        ExecutionError
            If there is too little memory on the GPU.
        """
        staged = self.kernels.staged
        return plan_executor(
            self.plan,
            self.kernels.library,
            staged.params,
            staged.target,
            device=device,
            lanes=lanes,
            options=options,
            cuda_graph=cuda_graph,
            store=_fact_store(self.plan),
        )

    def export_library(self, path: str | Path) -> None:
        """Write kernels, parameters, plan and native executor into one file.

        :func:`tvm_ios.load` reads it back, with no C compiler; stock TVM can load it as well.

        Raises
        ------
        ArtifactError
            If the file cannot be written.
        """
        export_artifact(self.kernels.staged.factory, self.plan, path, self.story())

    def story(self) -> ModelStory:
        """What files and pages tell of it: graph, schedule, machine, versions, and why this one."""
        return ModelStory(
            graph=self.graph,
            schedule_json=self.schedule.to_json(),
            report="" if self.tune_report is None else self.tune_report.as_text(),
            machine=dict(machine_facts()),
            versions=dict(version_facts()),
            evidence=self.evidence,
        )

    def report(self) -> TuneReport:
        """The record of tuning: what was done, and why this schedule was kept.

        Raises
        ------
        OptionError
            If the model was compiled without tuning.
        """
        if self.tune_report is None:
            raise OptionError(
                "this model was compiled with a given schedule, so there is no tuning report; "
                "use tvm_ios.tune for one"
            )
        return self.tune_report

    def as_text(self) -> str:
        """The schedule, one line a stage."""
        return self.schedule.as_text()


def build_model(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    name: str = "main",
    sink: bool = True,
    like: BuiltModel | None = None,
) -> BuiltModel:
    """Prepare a model and compile its kernels once, every operator a stage of its own.

    Parameters
    ----------
    mod
        A Relay module; one that ``PrepareModule`` has run on is taken as it is.
    params
        Parameters by name.
    target
        A CPU target, or one such as ``cuda -arch=sm_90``; the best for this processor where
        omitted.
    name
        Name of the operator graph, for pictures and reports.
    sink
        As in :func:`tvm_ios.relay.prepare`; False compiles what TVM alone would.
    like
        A build under the same tuning records, most of whose kernels are in this one, too.

    Raises
    ------
    ModelError
        If the model cannot be prepared or compiled, or nothing of it can be scheduled.
    OptionError
        If the target is neither a CPU nor a GPU of NVIDIA.
    """
    with cached_libinfo():
        prepared = prepare(mod, params, target if target is not None else host_target(), sink=sink)
        require_known_target(prepared.target)
    return build_prepared(prepared, name=name, like=like)


def build_prepared(
    prepared: PreparedModule, *, name: str = "main", like: BuiltModel | None = None
) -> BuiltModel:
    """Compile the kernels of a prepared model; arguments as in :func:`build_model`.

    Raises
    ------
    ModelError
        If it cannot be compiled, or nothing of it can be scheduled.
    """
    with cached_libinfo():
        known = None if like is None else like.kernels.staged.lowered
        staged = build(prepared.module, prepared.target, prepared.params, known=known)
    return BuiltModel(prepared, ModelKernels(staged), name)


def lower_schedule(built: BuiltModel, schedule: InterOpSchedule, *, lanes: int) -> CompiledModel:
    """Put a schedule on the kernels of a built model; merged stages are compiled anew.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph, breaks a rule, or has a library compute that does not
        for the target.
    PlanError
        If no legal plan comes out of it.
    """
    verify_schedule(schedule, built.graph)
    # Seconds for a large network, and a race only runs it: written when somebody asks for it.
    partition = cache(partial(rewrite_extraction, built.extraction, schedule))
    kernels = built.kernels
    placements: Sequence[Placement]
    if any(stage.is_merge for stage in schedule.stages):
        with cached_libinfo():
            kernels = ModelKernels(
                build(
                    partition(),
                    built.prepared.target,
                    built.prepared.params,
                    known=kernels.staged.lowered,
                )
            )
        placements = kernels.staged.placements
    else:
        placements = placements_for(built.extraction, schedule)
    return CompiledModel(
        partition=partition,
        graph=built.graph,
        schedule=schedule,
        plan=_plan(kernels.staged, placements, lanes, schedule, built.libraries),
        kernels=kernels,
        notes=built.prepared.notes,
    )


def lower_partitioned(
    module: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    lanes: int | None,
    libraries: Sequence[OperatorLibrary] = (),
) -> CompiledModel:
    """Compile a module that carries its schedule, as ``ScheduleOperators`` left it.

    Without ``lanes`` there are as many as the widest stage has groups, or a list has lanes.

    Raises
    ------
    ModelError
        If the attributes of its stages do not fit their code.
    OptionError
        If the target is neither a CPU nor a GPU of NVIDIA.
    """
    chosen = resolve_target(target if target is not None else host_target())
    require_known_target(chosen)
    arrays = check_parameters(module["main"], params)
    schedule = read_schedule(module)
    with cached_libinfo():
        staged = build(module, chosen, arrays)
    return CompiledModel(
        partition=lambda: module,
        graph=staged.extraction.graph,
        schedule=schedule,
        plan=_plan(staged, staged.placements, lanes or widest_stage(schedule), schedule, libraries),
        kernels=ModelKernels(staged),
    )


def _plan(
    staged: StagedBuild,
    placements: Sequence[Placement],
    lanes: int,
    schedule: InterOpSchedule,
    libraries: Sequence[OperatorLibrary],
) -> ExecutionPlan:
    names = staged.operator_names
    _require_libraries_of(staged.target, schedule)
    if libraries:
        chosen = None
        if schedule.libraries is not None:
            chosen = {
                row.library: {schedule.operator_names[index] for index in row.operators}
                for row in schedule.libraries
            }
        calls = staged.extraction.calls
        placements = with_library_calls(placements, calls, names, libraries, chosen)
    plan = lower_plan(
        staged.graph,
        placements,
        lanes=lanes,
        operator_names=names,
        hand_over=hand_over_of(staged.target),
    )
    verify_plan(plan)
    return plan


def _require_libraries_of(target: tvm.target.Target, schedule: InterOpSchedule) -> None:
    """Refuse a schedule in which a library computes that is for another kind of target."""
    for row in schedule.libraries or ():
        library = find_library(row.library)
        if not row.operators or (library is not None and library.target_kind == target.kind.name):
            continue
        title = row.library if library is None else library.name.title
        first = schedule.operator_names[row.operators[0]]
        because = "which this tvm-ios does not know" if library is None else _other_kind(target)
        raise ScheduleError(
            f"the schedule has {title} compute {len(row.operators)} operators, the first is "
            f"{first!r}, {because}"
        )


def _other_kind(target: tvm.target.Target) -> str:
    here, there = ("a GPU", "a CPU") if is_gpu_target(target) else ("a CPU", "a GPU")
    return (
        f"but target {str(target)!r} is {here}; compile for {there}, or search again for this "
        "target"
    )


def _fact_store(plan: ExecutionPlan) -> ProfileDatabase | None:
    """The database where libraries look up what the plan does not bring along: algorithms."""
    if not uses_libraries(plan):
        return None
    with suppress(DatabaseError):  # they find it out without one, too
        return ProfileDatabase()
    return None


def hand_over_of(target: tvm.target.Target) -> HandOver:
    """Time from one lane to another where code for this target runs."""
    return STREAMS if is_gpu_target(target) else CORES


def widest_stage(schedule: InterOpSchedule) -> int:
    """The lanes of a list, or else the most groups in a stage: streams that a GPU can use."""
    if schedule.home_lanes:
        return schedule.num_home_lanes
    return max((len(stage.groups) for stage in schedule.stages), default=1)
