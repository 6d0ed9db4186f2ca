"""Runner of any stage of a built model, to price it: finds each stage's kernels.

Comes between IR and stage runners, which know only libraries and numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.lanes import assign_lanes
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.merge_effects import View, stage_outputs
from tvm_ios.profile.kernel_variant import (
    Bytes,
    KernelVariant,
    VariantGraph,
    by_library,
    with_kernel_identity,
)
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.runtime.libraries.placed_calls import library_calls
from tvm_ios.runtime.libraries.stage_libraries import LibraryStageRunner, PreparedStage

__all__ = ["StageKernels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """Compiled kernels of a merge stage."""

    libraries: Mapping[str, int]
    """Number of the built library by the maker of the merged convolution."""
    num_operators: int


class StageKernels:
    """Native runner of any stage of a built module; a StageRunner for measured prices.

    A context manager: leaving it stops the lanes. Facts that operator libraries found out before
    come from the database. The module is built once. A merge stage needs a kernel that the module
    lacks; it is built on first use.
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
        self._apart: dict[int, int] = {}
        self._merged: dict[tuple[tuple[str, bool], ...], _Merged] = {}
        self.notes: tuple[str, ...] = ()
        """Lines that a reader of the prices ought to know, once the runner is closed."""
        self._native: LibraryStageRunner[Any] = session.stage_runner(lanes)
        self._opened = session.libraries(database)
        calls = self._complete_calls(built.kernels.staged.describe())
        self._numbers = self._add(built.kernels, calls=calls)
        self.library_names: Mapping[str, Mapping[int, str]] = {
            library.name.key: {
                index: self._opened.open(library).price_name(call.descriptor)
                for index, call in calls[library.name.key].items()
            }
            for library in built.libraries
        }
        """Operators that each library can compute, with the names of their calls, by key."""
        absent = built.kernels.staged.absent_nodes
        own_operators = frozenset(range(len(built.graph))) - absent
        self.able: Mapping[str, Collection[int]] = {TVM: own_operators, **self.library_names}
        """Operators that each maker can compute: TVM those whose kernels are not absent."""
        self.found_ns: Mapping[str, Mapping[int, int]] = {
            library.name.key: {
                index: found_ns
                for index, call in calls[library.name.key].items()
                if (found_ns := self._opened.open(library).found_ns(call.descriptor)) is not None
            }
            for library in built.libraries
        }
        """Nanoseconds of those operators on all lanes, where the library has found them out."""
        self._titles = {
            library.name.key: " ".join(
                filter(None, (self._opened.open(library).as_text(), library.options_text))
            )
            for library in built.libraries
        }
        self._rates = session.device.traits.rates
        own = with_kernel_identity(built, self.needs_no_kernel, self._rates)
        self.graphs: Mapping[str, VariantGraph] = {
            TVM: own,
            **{key: by_library(own, key, names) for key, names in self.library_names.items()},
        }
        """Graph with the kernels of each maker: TVM's own, and calls of each operator library in
        place of those that it can compute."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def idle_lanes_help(self) -> bool:
        """True if a long operator is faster where other lanes are idle."""
        return self.session.device.traits.idle_lanes_help

    @property
    def concurrency_overhead_percent(self) -> int:
        """Per cent that concurrent groups of long operators cost more in a network than alone."""
        traits = self.session.device.traits
        return traits.concurrency_overhead_percent if self.lanes > 1 else 0

    def library_titles(self) -> dict[str, str]:
        """Name, version and options of each operator library for people, by its key in files."""
        return self._titles

    def makers_of(self, members: Collection[int]) -> list[str]:
        """Makers of a merged convolution: those of each member; TVM where there is none."""
        makers = [maker for maker, able in self.able.items() if set(members) <= set(able)]
        return makers or [TVM]

    def close(self) -> None:
        """Stop the lanes; may be called twice."""
        if not self.notes:
            self.notes = (*self.session.notes(), *self._native.notes())
        self._native.close()

    def prepare(self, graph: OperatorGraph, stage: Stage) -> PreparedStage:
        """Make a stage ready to run; a merge stage may have to be compiled first.

        The graph is one of :attr:`graphs`, or made from them.
        """
        assert isinstance(graph, VariantGraph), "graphs without variants have no kernels"
        variants = graph.variants
        costs_ns = [sum(variants[index].alone_ns for index in group) for group in stage.groups]
        copies = self._rates.copies(sum(costs_ns))
        if stage.is_merge:
            return self._prepare_merge(variants, stage, copies)
        place = {index: self._place(variants[index], index) for index in stage.operators}
        groups = [[place[index] for index in group] for group in stage.groups]
        unsplit = {place[index] for index in stage.operators if not variants[index].split}
        nothing_read: list[dict[int, int]] = [{} for _ in groups]
        homes = assign_lanes([(0, 0)] * len(groups), costs_ns, nothing_read, lanes=self.lanes)
        return self._native.prepare(groups, unsplit=unsplit, homes=homes, copies=copies)

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        return self._native.ping_pong_ns()

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._native.waited_ns()

    def needs_no_kernel(self, operator: int) -> bool:
        """True if an operator became a view, which depends on the whole graph."""
        return self._native.needs_no_kernel(self._numbers[TVM], operator)

    def _place(self, variant: KernelVariant, index: int) -> tuple[int, int]:
        """Number of the library of an operator, and the operator's number there."""
        if variant.maker != TVM or variant.bytes is not Bytes.APART:
            return self._numbers[variant.maker], index
        if index not in self._apart:
            kernels = self.built.kernels
            alone = kernels.staged.graph.alone(index)
            self._apart[index] = self._add(kernels, alone, [None])[TVM]
        return self._apart[index], 0

    def _complete_calls(
        self, functions: Sequence[FusedFunction | None]
    ) -> dict[str, dict[int, LibraryCall]]:
        """Calls of each operator library in place of kernels that compute functions, by position.

        The library finds out how each call is fastest.
        """
        found: dict[str, dict[int, LibraryCall]] = {}
        for library in self.built.libraries:
            able = {i: call for i, call in enumerate(library_calls(functions, library)) if call}
            complete = self._opened.open(library).complete(
                call.descriptor for call in able.values()
            )
            found[library.name.key] = {
                index: LibraryCall(library.name, made)
                for index, call in able.items()
                if (made := complete[call.descriptor]) is not None
            }
        return found

    def _prepare_merge(
        self, variants: Sequence[KernelVariant], stage: Stage, copies: int
    ) -> PreparedStage:
        made = self._merged_library(variants, stage)
        maker, *others = {variants[index].maker for index in stage.operators}
        own = made.libraries[TVM]
        library = own if others else made.libraries.get(maker, own)
        merged = [(library, index) for index in range(made.num_operators)]
        return self._native.prepare([merged], copies=copies)

    def _merged_library(self, variants: Sequence[KernelVariant], stage: Stage) -> _Merged:
        """Kernels of a merge stage, the same for all kernels that its members have alone."""
        members = [group[0] for group in stage.groups]
        plain = self.built.graph.operators
        key = tuple((plain[index].workload, variants[index].copied) for index in members)
        if key not in self._merged:
            dialect = dialect_here()
            prepared = dialect.merged_stage(self.built.prepared, self.built.extraction, members)
            calls = self._complete_calls(dialect.describe(prepared.extraction))
            makers = self.makers_of(members)
            by_libraries = TVM not in makers and all(0 in calls[maker] for maker in makers)
            absent = dialect.absentees(prepared.extraction)[:1] if by_libraries else ()
            known = self.built.kernels.staged
            merged = ModelKernels(dialect.build(prepared, like=known, absent=absent))
            convolution, *slices = merged.staged.placements
            sliced = stage_outputs(self.built.extraction, members).sliced
            views = [convolution.view] + [
                None if variants[member].copied else slice_.view
                for member, slice_ in zip(sliced, slices, strict=True)
            ]
            # Inside a network the slices of the merged convolution are views; outputs cannot be.
            graph = merged.staged.graph.without_outputs()
            self._merged[key] = _Merged(
                libraries=self._add(merged, graph, views, calls),
                num_operators=len(merged.staged.operator_names),
            )
        return self._merged[key]

    def _add(
        self,
        kernels: ModelKernels[Any],
        graph: KernelGraph | None = None,
        views: Sequence[View] | None = None,
        calls: Mapping[str, Mapping[int, LibraryCall]] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Number of a built library with the operators of each maker; ``calls`` are by its key."""
        staged = kernels.staged
        if views is None:
            views = [placement.view for placement in staged.placements]
        export = partial(self.session.export, kernels)
        first = self._native.add_library(
            export,
            graph or staged.graph,
            staged.params,
            views,
            ways=list(calls.values()),
            libraries=self._opened,
            absent=staged.absent_nodes if calls else (),
        )
        return {maker: first + number for number, maker in enumerate((TVM, *calls))}
