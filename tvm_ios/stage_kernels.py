"""Runs any stage of a built model, to price it: which kernels a stage has, and where they lie.

Between IR and stage runners, which know libraries and numbers only. The module is built once. A
merge stage needs a kernel the module does not have: it is built when it is first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tvm_ios.compiled import BuiltModel, ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cudnn_pricing import CudnnKernels, runs_by_cudnn
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.host import cached_libinfo
from tvm_ios.kernel_identity import UNSPLIT
from tvm_ios.merge_surroundings import APART, COPIED, is_merge
from tvm_ios.relay.build import build
from tvm_ios.relay.merge import merge_stage_module, stage_outputs
from tvm_ios.runtime.cuda_stages import CudaStageRunner
from tvm_ios.runtime.graph_json import operator_alone
from tvm_ios.runtime.lanes import assign_lanes
from tvm_ios.runtime.merge_effects import View
from tvm_ios.runtime.stage_libraries import LibraryStageRunner

__all__ = ["RelayStageRunner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """The compiled kernels of a merge stage."""

    library: int
    cudnn_library: int
    """The same, the convolution by cuDNN where it can."""
    num_operators: int


class RelayStageRunner:
    """Runs any stage of one built module natively; a StageRunner for the measured cost model.

    A context manager: leaving it stops the lanes.

    Parameters
    ----------
    built
        The module and its kernels.
    lanes
        Lanes the stages run on.
    session
        On the device they run on.
    database
        Where algorithms of cuDNN are kept, for models that may use it.
    """

    def __init__(
        self,
        built: BuiltModel,
        *,
        lanes: int,
        session: MeasuringSession,
        database: ProfileDatabase | None = None,
    ) -> None:
        self.built = built
        self.lanes = lanes
        self.session = session
        self._merged: dict[tuple[tuple[str, bool], ...], _Merged] = {}
        self._apart: dict[int, int] = {}
        self._notes: tuple[str, ...] = ()
        self._native: LibraryStageRunner[Any] = session.stage_runner(lanes)
        self._base_library = self._add(built.kernels)
        self.cudnn = self._cudnn_kernels(database)
        """Calls of cuDNN in place of kernels; None where they are not to be tried."""
        self.cudnn_names: dict[int, str] = {}
        """Operators that cuDNN can compute, and what such a kernel is called."""
        self._cudnn_library = self._base_library
        if self.cudnn is not None:
            added = self.cudnn.add(self._base_library, built.extraction.calls)
            self._cudnn_library, self.cudnn_names = added
        self._rates = session.device.traits.rates
        self.operator_ns: tuple[int, ...] = tuple(map(self._rates.guess_ns, built.graph.operators))
        """What each operator costs alone on one lane, a guess until it was priced; decides which
        lane gets which group, and how many copies are timed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the prices ought to know, once the runner is closed."""
        return self._notes

    @property
    def idle_lanes_help(self) -> bool:
        """Whether a long operator is faster where other lanes are idle."""
        return self.session.device.traits.idle_lanes_help

    def close(self) -> None:
        """Stop the lanes; a second call does nothing."""
        if not self._notes:
            self._notes = (*self.session.notes(), *self._native.notes())
        self._native.close()

    def prepare(self, graph: OperatorGraph, stage: Stage) -> Any:
        """Make a stage ready to run; a merge stage may have to be compiled first."""
        costs_ns = [sum(self.operator_ns[index] for index in group) for group in stage.groups]
        copies = self._rates.copies(sum(costs_ns))
        if is_merge(stage):
            made = self._merged_library(graph, stage)
            all_by_cudnn = all(runs_by_cudnn(graph, index) for index in stage.operators)
            library = made.cudnn_library if all_by_cudnn else made.library
            merged = [(library, index) for index in range(made.num_operators)]
            return self._native.prepare([merged], copies=copies)
        place = {index: self._place(graph, index) for index in stage.operators}
        groups = [[place[index] for index in group] for group in stage.groups]
        unsplit = {
            place[index]
            for index in stage.operators
            if graph.operators[index].workload.endswith(UNSPLIT)
        }
        nothing_read: list[dict[int, int]] = [{} for _ in groups]
        homes = assign_lanes([(0, 0)] * len(groups), costs_ns, nothing_read, lanes=self.lanes)
        return self._native.prepare(groups, unsplit=unsplit, homes=homes, copies=copies)

    def time_ns(self, handle: Any, number: int) -> int:
        """Total elapsed time of ``number`` back-to-back runs, in nanoseconds."""
        return self._native.time_ns(handle, number)

    def ping_pong_ns(self) -> float:
        """One core-to-core hand-off between two lanes, in nanoseconds; 0 with a single lane."""
        return self._native.ping_pong_ns()

    def needs_no_kernel(self, operator: int) -> bool:
        """Whether an operator became a view, which depends on the whole graph."""
        return self._native.needs_no_kernel(self._base_library, operator)

    def _place(self, graph: OperatorGraph, index: int) -> tuple[int, int]:
        """The library of an operator, and its number there."""
        if runs_by_cudnn(graph, index):
            return self._cudnn_library, index
        if APART not in graph.operators[index].workload:
            return self._base_library, index
        if index not in self._apart:
            kernels = self.built.kernels
            graph_json = operator_alone(kernels.staged.graph_json, index)
            self._apart[index] = self._add(kernels, graph_json, [None])
        return self._apart[index], 0

    def _merged_library(self, graph: OperatorGraph, stage: Stage) -> _Merged:
        """The kernels of a merged stage, the same for all kernels that its members have alone."""
        members = [group[0] for group in stage.groups]
        plain = self.built.graph.operators
        key = tuple(
            (plain[index].workload, graph.operators[index].workload.endswith(COPIED))
            for index in members
        )
        if key not in self._merged:
            module = merge_stage_module(self.built.extraction, members)
            with cached_libinfo():
                merged = ModelKernels(build(module, self.built.prepared.target))
            convolution, *slices = merged.staged.placements
            sliced = stage_outputs(self.built.extraction, members).sliced
            views = [convolution.view] + [
                None if graph.operators[member].workload.endswith(COPIED) else slice_.view
                for member, slice_ in zip(sliced, slices, strict=True)
            ]
            library = self._add(merged, _without_outputs(merged.staged.graph_json), views)
            cudnn_library = library
            if self.cudnn is not None:
                cudnn_library, _ = self.cudnn.add(library, merged.staged.extraction.calls)
            self._merged[key] = _Merged(
                library=library,
                cudnn_library=cudnn_library,
                num_operators=len(merged.staged.operator_names),
            )
        return self._merged[key]

    def _cudnn_kernels(self, database: ProfileDatabase | None) -> CudnnKernels | None:
        offload = self.built.offload
        if offload is None:
            return None
        assert isinstance(self._native, CudaStageRunner)
        return CudnnKernels(self._native, self.session.cudnn(database), offload)

    def _add(
        self,
        kernels: ModelKernels,
        graph_json: str | None = None,
        views: Sequence[View] | None = None,
    ) -> int:
        staged = kernels.staged
        if views is None:
            views = [placement.view for placement in staged.placements]
        path = self.session.export(kernels)
        return self._native.add_library(path, graph_json or staged.graph_json, staged.params, views)


def _without_outputs(graph_json: str) -> str:
    """The graph of a merged stage with its input for an output.

    Inside a network the slices of the merged convolution are views, which outputs cannot be.
    """
    graph = json.loads(graph_json)
    graph["heads"] = [[graph["arg_nodes"][0], 0, 0]]
    return json.dumps(graph)
