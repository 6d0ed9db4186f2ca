"""The first step: a user's module becomes one ``main`` of fused functions, parameters bound.

TVM's own graph pipeline does the work (binding, simplification, folding, layout choice, fusion).
This file checks its input, keeps one of TVM's passes from growing the graph, and removes leftovers
of the pipeline that belong to one target object only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relay
from tvm.ir.transform import PassContext, Sequential
from tvm.target.codegen import target_has_features

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.quantised_products import QuantisedProducts
from tvm_ios.errors import OptionError
from tvm_ios.host import has_bfloat16
from tvm_ios.host.processor import ROUNDING
from tvm_ios.relay.constants import equal_constants
from tvm_ios.relay.context import pass_context
from tvm_ios.relay.dataflow import all_calls, graph_order, rebuild
from tvm_ios.relay.extract import Extraction, extract, is_prepared, unlabelled_calls
from tvm_ios.relay.functions.quantised import is_fake_quantize
from tvm_ios.relay.inputs import CheckedModule, check_module, check_parameters, resolve_target
from tvm_ios.relay.transforms.bfloat16 import in_bfloat16
from tvm_ios.relay.transforms.bound_model import with_parameters
from tvm_ios.relay.transforms.conversion import convert
from tvm_ios.relay.transforms.empty_tensors import fold_empty_tensors
from tvm_ios.relay.transforms.pipeline import UNSHARER, may_be_held_back, optimize
from tvm_ios.relay.transforms.products.shared_matrices import multiply_rows_at_once
from tvm_ios.relay.transforms.quantised.float32_products import float32_products
from tvm_ios.relay.transforms.quantised.packed_weights import with_packed_weights
from tvm_ios.relay.transforms.quantised.whole_numbers import in_numbers, in_whole_numbers
from tvm_ios.relay.transforms.simplify import adds_to_itself
from tvm_ios.relay.transforms.spellings.one_spelling import in_one_spelling
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.exact_bits import bits_may_change

__all__ = [
    "PreparedModule",
    "converted_model",
    "multiplies_bytes",
    "prepare",
    "with_low_precision",
]

PRODUCTS_OF_BYTES = "avx512vnni"
"""LLVM's name of what processors have that multiply bytes by fours."""
HEAVY = ("conv", "dense", "matmul", "pool")


@dataclass(frozen=True, kw_only=True)
class PreparedModule:
    """A fused module, ready to be extracted, rewritten and built."""

    module: tvm.IRModule
    params: dict[str, tvm.nd.NDArray]
    """Parameters that are still inputs of ``main``; empty where all were bound."""
    target: tvm.target.Target
    sunk: int = 0
    """Number of element-wise operators that were moved in front of concatenations."""
    notes: tuple[str, ...] = ()
    """Lines for the user on how the model was prepared."""
    never_whole: str | None = None
    """Reason why no product of a quantised model multiplies whole numbers, empty where some may;
    None for other models."""
    low: LowPrecision | None = None
    """Values that lie in memory as bfloat16; None where all are as in the model."""

    @cached_property
    def extraction(self) -> Extraction:
        """Operators of the module, extracted when this is first asked for."""
        return extract(self.module)

    @cached_property
    def quantised(self) -> QuantisedProducts | None:
        """Products of a quantised model; None for other models."""
        if self.never_whole is None:
            return None
        others = sorted(float32_products(self.extraction).items())
        return QuantisedProducts(others=tuple(others), never=self.never_whole)

    def as_text(self) -> str:
        """Relay text without constants."""
        return str(self.module.astext(show_meta_data=False))


def prepare(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    opt_level: int = 3,
    sink: bool = True,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule:
    """Module that is bound, simplified, folded, with layouts chosen, and fused.

    Parameters
    ----------
    mod
        A Relay module with a ``main`` of static shapes; any batch size. It is not changed.
    params
        Parameters by name, as TVM or NumPy arrays; None where weights are inputs on purpose.
    target
        Target for one device, in any form :class:`tvm.target.Target` takes.
    opt_level
        TVM's optimization level, if the caller has entered no PassContext. An entered one is
        honoured: level, required and disabled passes, configuration, instruments. So are the tuning
        records of an ``ApplyHistoryBest`` around the call.
    sink
        True moves element-wise operators in front of concatenations
        (:mod:`tvm_ios.relay.transforms.concatenation`), which TVM does not do.

    Raises
    ------
    ModelError
        If ``main`` is missing or cannot run on the graph executor, a parameter is missing,
        unknown or of the wrong shape or type, or TVM does not have the target.
    """
    chosen = resolve_target(target)
    typed = in_numbers(fold_empty_tensors(check_module(mod)))
    arrays = check_parameters(typed["main"], params)
    quantised = any(map(is_fake_quantize, all_calls(typed["main"].body)))
    notes: list[str] = []
    free = [parameter.name_hint for parameter in typed["main"].params]
    if params is None and len(free) > 1:
        notes.append(
            f"no parameters were given: {len(free)} inputs stay inputs, so nothing that depends "
            "on weights was folded and no convolutions can be merged"
        )
    if conversion.changes:
        typed, arrays = convert(typed, arrays, chosen, conversion), {}
        notes.append(f"the model was converted: {conversion.as_text()}")
    if bits_may_change():
        typed = multiply_rows_at_once(typed)
        if not is_gpu_target(chosen):
            typed, arrays = in_one_spelling(with_parameters(typed, arrays)), {}
    # With instruments of the caller the pipeline runs whole, and nobody can stop it half-way.
    unshared = bool(len(PassContext.current().instruments)) and unshares(typed)
    fused = optimize(typed, arrays, chosen, opt_level, [UNSHARER] if unshared else [], sink=sink)
    unshared = unshared or fused.unshares
    if not unshared and heavy_operators(fused.module) > heavy_operators(typed):
        # Or TVM wrote one operator as two, as it does a quantised convolution for VNNI.
        without = optimize(typed, arrays, chosen, opt_level, [UNSHARER], sink=sink)
        unshared = heavy_operators(without.module) < heavy_operators(fused.module)
        fused = without if unshared else fused
    if unshared:
        notes.append(
            f"TVM's pass {UNSHARER} would have duplicated shared operators of this model, "
            "so it was left out"
        )
    if not may_be_held_back():
        notes.append(
            "instruments or required passes of the PassContext make TVM's pipeline run whole: "
            "norms and attention are several kernels each, libraries may find fewer operators"
        )
    made = PreparedModule(
        module=_portable(fused.module),
        params=dict(fused.params),
        target=chosen,
        sunk=fused.sunk,
        notes=tuple(notes),
    )
    if quantised:
        never = _why_never_whole(chosen)
        module = in_whole_numbers(made.extraction, products=not never)
        made = replace(made, module=module, never_whole=never)
    if not bits_may_change() or is_gpu_target(chosen) or not may_be_held_back():
        return made
    module = with_packed_weights(made.extraction, chosen)
    return made if module.same_as(made.extraction.module) else replace(made, module=module)


def _why_never_whole(target: tvm.target.Target) -> str:
    """Reason why products of bytes are computed in float32 for a target; empty where they need not.

    Without such instructions they are slower than those of float32.
    """
    if not bits_may_change():
        return "exact=True has the bits of stock TVM"
    if is_gpu_target(target):
        return "that is what GPUs compute here"
    return "" if multiplies_bytes(target) else f"the target has no VNNI ({PRODUCTS_OF_BYTES})"


def multiplies_bytes(target: Any) -> bool:
    """True if processors of a target multiply bytes by fours."""
    return bool(target_has_features(PRODUCTS_OF_BYTES, resolve_target(target)))


def with_low_precision(prepared: PreparedModule, low: LowPrecision) -> PreparedModule:
    """Prepared module of float32 whose values lie in memory as bfloat16 where that is said.

    On a processor that rounds vectors to bfloat16, kernels may do so.
    """
    module = in_bfloat16(prepared.extraction, low)
    target = _rounding_target(prepared.target) if has_bfloat16() else prepared.target
    return replace(prepared, module=module, target=target, low=low)


def _rounding_target(target: tvm.target.Target) -> tvm.target.Target:
    """Target as :func:`~tvm_ios.host.host_target` has it, with bfloat16; any other one as it is."""
    for name, better in ROUNDING.items():
        if target.attrs.get("mcpu") == name:
            return tvm.target.Target(str(target).replace(f"-mcpu={name}", f"-mcpu={better}"))
    return target


def converted_model(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any, conversion: Conversion
) -> tuple[tvm.IRModule, Mapping[str, Any] | None]:
    """Model in other layouts and types, with parameters bound; unchanged if nothing changes."""
    if not conversion.changes:
        return mod, params
    typed = check_module(mod)
    if is_prepared(typed):
        raise OptionError(
            f"{conversion.as_text()} is for models as they were imported, and this one is fused "
            "already; give the options to PrepareModule"
        )
    arrays = check_parameters(typed["main"], params)
    return convert(typed, arrays, resolve_target(target), conversion), None


def unshares(module: tvm.IRModule) -> bool:
    """True if SimplifyExpr, after common subexpressions were found, would make the graph grow."""
    if UNSHARER in [str(name) for name in PassContext.current().disabled_pass]:
        return False
    transform = relay.transform
    with pass_context(disabled=[UNSHARER]):
        shared = Sequential(
            [
                transform.InferType(),
                transform.SimplifyInference(),
                transform.EliminateCommonSubexpr(),
            ]
        )(module)
    return adds_to_itself(shared)


def heavy_operators(module: tvm.IRModule) -> int:
    """Number of convolutions, matrix products and poolings in ``main``."""
    calls = all_calls(module["main"])
    names = [call.op.name for call in calls if isinstance(call.op, tvm.ir.Op)]
    return sum(
        any(word in name for word in HEAVY) and "weight_transform" not in name for name in names
    )


def _portable(fused: tvm.IRModule) -> tvm.IRModule:
    """Module without device annotations, which cannot even be parsed back, and without labels.

    Constants of equal values are one.
    """
    main = fused["main"]
    parameters = [relay.Var(old.name_hint, old.checked_type) for old in main.params]
    known: dict[relay.Expr, relay.Expr] = dict(zip(main.params, parameters, strict=True))
    known |= equal_constants(
        each for each in graph_order(main.body) if isinstance(each, relay.Constant)
    )
    body = rebuild(main.body, known, unlabelled_calls())
    module = tvm.IRModule(
        {
            variable: fused[variable]
            for variable in fused.get_global_vars()
            if variable.name_hint != "main"
        },
        fused.type_definitions,
    )
    module["main"] = relay.Function(parameters, body, main.ret_type)
    return relay.transform.InferType()(module)
