"""Runner of any stage of a built model of Relay, merges among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.host import cached_libinfo
from tvm_ios.profile.dialects.stage_kernels import StageKernels
from tvm_ios.profile.kernel_variant import KernelVariant
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.relay.build import build
from tvm_ios.relay.extract import extract
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.merge import merge_stage_module, stage_outputs
from tvm_ios.runtime.libraries.stage_libraries import PreparedStage

__all__ = ["RelayStageRunner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """Compiled kernels of a merge stage."""

    libraries: Mapping[str, int]
    """Number of the built library by the maker of the merged convolution."""
    num_operators: int


class RelayStageRunner(StageKernels):
    """Runner of stages of a built module of Relay, with merges.

    The module is built once. A merge stage needs a kernel that the module lacks; it is built on
    first use.
    """

    built: BuiltModel

    def __init__(
        self,
        built: BuiltModel,
        *,
        lanes: int,
        session: MeasuringSession,
        database: ProfileDatabase | None = None,
    ) -> None:
        self._merged: dict[tuple[tuple[str, bool], ...], _Merged] = {}
        super().__init__(built, lanes=lanes, session=session, database=database)

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
            module = merge_stage_module(self.built.extraction, members)
            plain_calls = extract(module).calls
            calls = self._complete_calls(describe_calls(plain_calls))
            makers = self.makers_of(members)
            by_libraries = TVM not in makers and all(0 in calls[maker] for maker in makers)
            with cached_libinfo():
                merged = ModelKernels(
                    build(
                        module,
                        self.built.prepared.target,
                        known=self.built.kernels.staged.lowered,
                        absent=[digest_of_call(plain_calls[0])] if by_libraries else (),
                    )
                )
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
