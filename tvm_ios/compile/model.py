"""Compiled models: kernels, a schedule on them, and the executor that runs it.

This is the last noun before running.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from tvm_ios.compile.file_kernels import FileKernels
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.parts import Part
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.errors import DatabaseError, OptionError
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.artifact.artifact import export_artifact
from tvm_ios.runtime.artifact.new_artifact import copy_artifact
from tvm_ios.runtime.artifact.plan_executor import plan_executor
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.libraries.open_libraries import uses_libraries

if TYPE_CHECKING:
    from tvm_ios.report.records_in_force import RecordsInForce

__all__ = ["CompiledModel", "fact_store"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledModel:
    """A compiled model with its inter-operator schedule."""

    partition: Callable[[], tvm.IRModule]
    """Returns :attr:`module`, which takes seconds for a large network."""
    graph: OperatorGraph
    """Operators that were scheduled; for a module partitioned before, those of its kernels."""
    schedule: InterOpSchedule
    plan: ExecutionPlan
    kernels: ModelKernels[Any] | FileKernels
    """Kernels that were built in this process, or loaded with an equal model of an earlier call."""
    notes: tuple[str, ...] = ()
    """Lines for the user on how the module was prepared."""
    tune_report: TuneReport | None = None
    records: RecordsInForce | None = None
    """Tuning records of its kernels; None where nobody gave any."""
    rest: Rest | None = None
    """Nodes that onnxruntime runs after all this; None for a model that is compiled whole."""
    kept_as: str = ""
    """Key of the cache's entry that holds it as a result of ``tune``; empty without one."""
    interim: str = ""
    """Line on what it is, where ``tune`` made it before its end; empty for all other models."""

    @property
    def was_loaded(self) -> bool:
        """True if ``tune`` has loaded it, as an equal call had left it."""
        return isinstance(self.kernels, FileKernels)

    def of_network(self, rest: Rest | None, parts: tuple[Part, ...]) -> CompiledModel:
        """The model with the rest of a network that onnxruntime runs, or the network's parts."""
        return replace(self, rest=rest, plan=replace(self.plan, parts=parts))

    def with_alone(self, sequential: ExecutionPlan) -> CompiledModel:
        """The model whose parts run alone with the help of idle lanes that a plan in order has."""
        splits = {launch.operator: launch.split for launch in sequential.launches}
        launches = tuple(
            replace(launch, split_alone=splits.get(launch.operator, True))
            for launch in self.plan.launches
        )
        return replace(self, plan=replace(self.plan, launches=launches))

    @property
    def module(self) -> tvm.IRModule:
        """Partitioned module with one function a stage. Plain ``relay.build`` runs it too."""
        return self.partition()

    def executor(
        self,
        device: Any = None,
        *,
        lanes: int | None = None,
        options: LaneOptions | None = None,
        cuda_graph: bool = True,
    ) -> MultiStreamGraphModule | CudaGraphModule:
        """Executor of the model in this process, with the interface of TVM's ``GraphModule``.

        Parameters
        ----------
        device
            ``tvm.cpu()``, or a GPU such as ``tvm.cuda(0)`` if it was compiled for one; may be
            omitted.
        lanes
            Threads, the caller's included; as many as the plan has lanes where omitted. Not for
            GPUs, whose streams are those of the plan.
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
            If there is no driver, no such GPU, one that does not run this code, or no onnxruntime
            where that runs the rest of the model.
        ExecutionError
            If there is too little memory on the GPU.
        """
        kernels = self.kernels
        return plan_executor(
            self.plan,
            kernels.library,
            kernels.params,
            kernels.target,
            device=device,
            lanes=lanes,
            options=options,
            cuda_graph=cuda_graph,
            store=fact_store(self.plan),
            rest=self.rest,
        )

    def export_library(self, path: str | Path) -> None:
        """Write kernels, parameters, plan and native executor into one file.

        :func:`tvm_ios.load` reads it back, with no C compiler. Stock TVM can load it as well, if
        no kernel was left to an operator library.

        Raises
        ------
        ArtifactError
            If the file cannot be written.
        """
        if isinstance(self.kernels, FileKernels):
            copy_artifact(self.kernels.path, Path(path))
            return
        factory, store = self.kernels.staged.factory, fact_store(self.plan)
        export_artifact(factory, self.plan, path, self.story(), store, self.rest)

    def story(self) -> ModelStory:
        """Story for files and pages: graph, schedule, machine, versions, and reasons."""
        told = self.tune_report
        return ModelStory(
            graph=self.graph,
            schedule_json=self.schedule.to_json(),
            report=self.interim if told is None else told.as_text(),
            machine=dict(machine_facts()),
            versions=dict(version_facts()),
            evidence=None if told is None else told.evidence,
            rest="" if self.rest is None else f"{self.rest.text}; times are of the other nodes",
            parts=self.plan.parts,
            ceiling="" if told is None else told.story.ceiling,
            precision=None if told is None else told.story.precision,
        )

    def report(self) -> TuneReport:
        """Report of tuning: what was done, and why this schedule was kept.

        Raises
        ------
        OptionError
            If the model was compiled without tuning.
        """
        if self.interim:
            raise OptionError(f"{self.interim}; what tune returns has a report")
        if self.tune_report is None:
            raise OptionError(
                "this model was compiled with a given schedule, so there is no tuning report; "
                "use tvm_ios.tune for one"
            )
        return self.tune_report

    def as_text(self) -> str:
        """Text of the schedule, a line for each stage."""
        return self.schedule.as_text()


def fact_store(plan: ExecutionPlan) -> ProfileDatabase | None:
    """Database of facts that the plan lacks, such as algorithms, for operator libraries."""
    if not uses_libraries(plan):
        return None
    with suppress(DatabaseError):  # they find it out without one, too
        return ProfileDatabase()
    return None
