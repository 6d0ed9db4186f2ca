"""TVM's own graph pipeline, without work that has no effect or is done faster here.

``relay.optimize`` is run twice: up to the choice of layouts, and from there on. In between,
constants that are only moved are folded (:mod:`tvm_ios.relay.transforms.fold`). TVM decides which
passes there are, and their order: an instrument lets the passes of one half through and holds back
the others. TVM does not ask instruments about passes that the caller requires, and instruments of
the caller watch only the caller's own context; with either, the pipeline runs unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext

from tvm_ios.errors import ModelError
from tvm_ios.relay.context import ANSOR_SWITCH, reason_of, tvm_pipeline
from tvm_ios.relay.transforms.attention.whole_attention import keep_attention_whole
from tvm_ios.relay.transforms.concatenation import sink_into_concatenations
from tvm_ios.relay.transforms.fold import fold_exactly
from tvm_ios.relay.transforms.layout_text import without_layout_text
from tvm_ios.relay.transforms.lone_concatenations import keep_concatenations_alone
from tvm_ios.relay.transforms.mish import with_short_mish
from tvm_ios.relay.transforms.norms.channel_variances import without_channel_variances
from tvm_ios.relay.transforms.norms.whole_norms import keep_norms_whole
from tvm_ios.relay.transforms.own_numbers import own_numbers
from tvm_ios.relay.transforms.quantised.whole_numbers import with_products_for_libraries
from tvm_ios.relay.transforms.scales import free_scales, hold_scales
from tvm_ios.relay.transforms.simplify import adds_to_itself, may_share, may_simplify
from tvm_ios.relay.transforms.whole_extremes import with_extremes_of_any_order
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["UNSHARER", "Optimized", "may_be_held_back", "only_from_fusion", "optimize"]

LAYOUTS = "AlterOpLayout"
"""Last pass of the first half."""
LAYOUTS_LEVEL = 3
"""Level from which on that pass and FoldScaleAxis run."""
FOLDING = "FoldConstant"
FOLDING_LEVEL = 2
SHARER = "EliminateCommonSubexpr"
"""Pass that compares every two calls of one operator, in time by the square of their number."""
UNSHARER = "SimplifyExpr"
"""Pass that duplicates operators of sums with equal sides."""
SIMPLIFIERS = (UNSHARER, "SimplifyExprPostAlterOp")
WHOLE = "sequential"
"""Pass that all others up to fusion are parts of."""
FUSING = ("PlanDevices", "FuseOps")
"""Passes with which the pipeline begins on a module that has been through it already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """Result of the pipeline."""

    module: tvm.IRModule
    params: Mapping[str, tvm.nd.NDArray]
    unshares: bool
    """True if SimplifyExpr was left out because it would have duplicated operators."""
    sunk: int = 0
    """Number of element-wise operators moved in front of concatenations or kept out of them."""


def optimize(
    module: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray],
    target: tvm.target.Target,
    opt_level: int,
    disabled: Iterable[str] = (),
    *,
    sink: bool = False,
) -> Optimized:
    """Result of ``relay.optimize``, in less time.

    ``sink`` keeps concatenations free of other operators, which TVM does not do; not done where the
    pipeline has to run unchanged.
    """
    # TVM binds parameters in the very module that it is given.
    own = module.clone()
    try:
        with _layout_text():
            return _optimize(own, params, target, opt_level, tuple(disabled), sink)
    except tvm.TVMError as error:
        raise ModelError(
            f"TVM cannot optimize this model for target {str(target)!r}: {reason_of(error)}; "
            "see whether tvm.relay.build accepts it"
        ) from error


def _optimize(
    module: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray],
    target: tvm.target.Target,
    opt_level: int,
    disabled: tuple[str, ...],
    sink: bool,
) -> Optimized:
    if not may_be_held_back():
        with tvm_pipeline(opt_level=opt_level, disabled=disabled):
            fused, rest = relay.optimize(module, target=target, params=dict(params))
        return Optimized(module=fused, params=rest, unshares=False)
    sunk = 0
    held = 0
    first = _UpToLayouts()
    with tvm_pipeline(opt_level=opt_level, disabled=disabled, instruments=[first]):
        if _chooses_layouts():  # else nobody takes markers away
            if target.kind.name == "llvm":
                module = without_channel_variances(module)
            module, held = hold_scales(module, params)
        if _folds(opt_level, disabled):
            module = fold_exactly(relay.transform.InferType()(module))
        fused, rest = relay.optimize(module, target=target, params=dict(params))
    if first.done:
        laid_out = relay.transform.InferType()(fused)
        if held:
            laid_out = free_scales(laid_out)
        if first.folds:
            laid_out = fold_exactly(laid_out)
        laid_out = with_extremes_of_any_order(laid_out)
        if bits_may_change() and not is_gpu_target(target):
            laid_out = own_numbers(with_short_mish(laid_out))
        if sink:
            laid_out, sunk = sink_into_concatenations(laid_out)
            laid_out, alone = keep_concatenations_alone(laid_out, target)
            sunk += alone
            laid_out, _ = keep_attention_whole(with_products_for_libraries(laid_out), target)
            laid_out, _ = keep_norms_whole(laid_out, target)
        second = _FromLayouts()
        with tvm_pipeline(opt_level=opt_level, disabled=disabled, instruments=[second]):
            fused, _ = relay.optimize(laid_out, target=target, params={})
    return Optimized(module=fused, params=rest, unshares=first.unshares, sunk=sunk)


def only_from_fusion() -> list[Any]:
    """Instruments that hold back the part of the pipeline before fusion, where that is allowed."""
    return [_FromFusion()] if may_be_held_back() else []


def _layout_text() -> AbstractContextManager[None]:
    """Context that switches layout texts off, unless Ansor reads them for keys of workloads."""
    if PassContext.current().config.get(ANSOR_SWITCH):
        return nullcontext()
    return without_layout_text()


def may_be_held_back() -> bool:
    """True unless the caller's PassContext makes the pipeline run whole, without our passes."""
    current = PassContext.current()
    return not len(current.instruments) and not len(current.required_pass)


def _chooses_layouts() -> bool:
    """True if the PassContext in force, which may be the caller's, has the pass of layouts."""
    current = PassContext.current()
    disabled = [str(name) for name in current.disabled_pass]
    return current.opt_level >= LAYOUTS_LEVEL and LAYOUTS not in disabled


def _folds(opt_level: int, disabled: tuple[str, ...]) -> bool:
    """True if the pipeline has the pass that folds constants."""
    off = {*disabled, *(str(name) for name in PassContext.current().disabled_pass)}
    return min(opt_level, PassContext.current().opt_level) >= FOLDING_LEVEL and FOLDING not in off


@pass_instrument
class _UpToLayouts:
    """Instrument that lets passes through until layouts have been chosen."""

    def __init__(self) -> None:
        self.done = False
        self.folds = False
        """True if the context has FoldConstant; TVM does not ask about passes that are off."""
        self.unshares = False

    def should_run(self, module: tvm.IRModule, info: Any) -> bool:
        name = str(info.name)
        self.folds |= name == FOLDING
        if name == SHARER and not self.done:
            return may_share(module)
        if name == UNSHARER and not self.done:
            self.unshares = adds_to_itself(module)
            return not self.unshares and may_simplify(module)
        return not self.done

    def run_after_pass(self, _module: tvm.IRModule, info: Any) -> None:
        self.done |= str(info.name) == LAYOUTS


@pass_instrument
class _FromLayouts:
    """Instrument that lets passes through from where layouts would have been chosen."""

    def __init__(self) -> None:
        self.begun = False

    def should_run(self, module: tvm.IRModule, info: Any) -> bool:
        name = str(info.name)
        if not self.begun:
            self.begun = name == LAYOUTS
            return name == WHOLE
        if name == SHARER:
            return may_share(module)
        return name not in SIMPLIFIERS or may_simplify(module)


@pass_instrument
class _FromFusion:
    """Instrument that lets passes through from fusion on."""

    def __init__(self) -> None:
        self.begun = False

    def should_run(self, _module: tvm.IRModule, info: Any) -> bool:
        self.begun = self.begun or str(info.name) in FUSING
        return self.begun or str(info.name) == WHOLE
