"""The first step in Relax: a user's module becomes one ``main`` of kernels, parameters bound.

TVM's own passes do the work; then kernels get loops of ours. Layouts stay as they are in the model,
unless somebody asks for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.backend import DispatchSortScan

from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.quantised_products import QuantisedProducts
from tvm_ios.errors import ModelError
from tvm_ios.relax.extract import Extraction, extract, is_prepared
from tvm_ios.relax.ir import call_name, main_of, name_of, operator_calls, static_tensors
from tvm_ios.relax.notes import fuse_noted, legalize_noted
from tvm_ios.relax.schedules.in_force import with_own_loops
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.relax.stored.bfloat16 import in_bfloat16
from tvm_ios.relax.stored.packed_weights import with_packed_weights
from tvm_ios.relax.stored.quantised import in_numbers, is_quantised
from tvm_ios.relax.stored.whole_numbers import in_whole_numbers
from tvm_ios.relax.target import resolve_target, rounding_target
from tvm_ios.relax.transforms.fold import fold_constants
from tvm_ios.relax.transforms.gates import keep_gates_apart
from tvm_ios.relax.transforms.image_layouts import IMAGE_LAYOUTS, ImageLayouts, blocks_of
from tvm_ios.relax.transforms.scales import with_scales_in_weights
from tvm_ios.relax.tuned_loops import database_in_force, with_tuned_loops
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.exact_bits import bits_may_change

__all__ = [
    "PreparedModule",
    "bound_module",
    "fuse",
    "params_by_name",
    "prepare",
    "with_low_precision",
]


@dataclass(frozen=True, kw_only=True)
class PreparedModule:
    """Module whose ``main`` calls kernels, ready to be extracted, rewritten and built."""

    module: tvm.IRModule
    target: tvm.target.Target
    notes: tuple[str, ...] = ()
    """Lines for the user on how the module was prepared."""
    low: LowPrecision | None = None
    """Values that lie in memory as bfloat16; None where all are as in the model."""
    fused: tvm.IRModule | None = None
    """The module before kernels had loops; None where it came with them."""
    quantised: QuantisedProducts | None = None
    """Products of a quantised model; None for other models."""
    images: ImageLayouts | None = None
    """Layouts of images; None where they are those of the model."""

    @property
    def form(self) -> ImageForm | None:
        """Form of the images; None where layouts are those of the model."""
        return None if self.images is None else self.images.form

    @cached_property
    def extraction(self) -> Extraction:
        """Operators of the module, extracted when this is first asked for."""
        return extract(self.module)

    def as_text(self) -> str:
        """TVMScript without constants."""
        return str(self.module.script(show_meta=False))

    def with_loops(self) -> PreparedModule:
        """Prepared module whose kernels have loops: those of tuning records first, then ours."""
        if self.module is not self.fused:
            return self
        extraction = self.extraction
        if database_in_force() is not None:
            extraction = extract(with_tuned_loops(extraction, self.target))
        if not bits_may_change():
            return replace(self, module=extraction.module)
        return replace(self, module=with_own_loops(extraction, self.target))


def prepare(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    image_layout: str | ImageForm | None = None,
) -> PreparedModule:
    """Module of kernels with loops; arguments and errors are those of :func:`fuse`."""
    return fuse(mod, params, target, image_layout=image_layout).with_loops()


def fuse(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    image_layout: str | ImageForm | None = None,
) -> PreparedModule:
    """Module with parameters bound, constants folded, operators lowered to kernels, and fused.

    Kernels have no loops yet; the graph is the same without.

    Parameters
    ----------
    mod
        A module of Relax with a ``main``. It is not changed. A prepared one is taken as it is.
    params
        Parameters by the names of ``main``'s variables, as NumPy arrays or tensors of TVM, or as
        ``tvm.relax.frontend.detach_params`` gives them; None where all are bound, or weights are
        inputs on purpose.
    target
        Target, as :func:`tvm_ios.relax.target.resolve_target` takes it.
    image_layout
        Layout of the images that 2-D convolutions read and write: ``NHWC``, one with blocks of
        channels (``NHWC`` where channels fill no block), a form that says the layout of each
        convolution, or None for the model's own. Inputs and outputs of the model keep theirs.

    Raises
    ------
    ModelError
        If the layout is another one, or a form of another number of convolutions, there is no
        ``main`` in Relax, a parameter is unknown or of the wrong shape or type, or TVM does not
        have the target.
    """
    chosen = resolve_target(target)
    if not isinstance(image_layout, ImageForm) and image_layout not in (None, *IMAGE_LAYOUTS):
        raise ModelError(
            f"image_layout={image_layout!r}; it is None for the model's own, or one of "
            f"{', '.join(IMAGE_LAYOUTS)}"
        )
    mod = bound_module(mod, params)
    main = main_of(mod)
    assert main is not None, "it was looked for"
    transform = relax.transform
    steps: list[tvm.transform.Pass] = []
    is_done = is_partitioned(mod) or is_prepared(mod)
    images = None
    if image_layout is not None and not is_done:
        images = ImageLayouts(image_layout, blocks_of(chosen))
    faster = bits_may_change()
    products, quantised = multiplies_bytes(chosen), not is_done and is_quantised(mod)
    if not is_done:
        steps += [
            transform.Normalize(),
            transform.ConvertToDataflow(),
            *([transform.FoldBatchnormToConv2D()] if faster and _has_plain_norms(main) else []),
            *([] if _trains(main) else [transform.DecomposeOpsForInference()]),
            transform.CanonicalizeBindings(),
            fold_constants,
            *(
                [in_numbers(products=products), transform.CanonicalizeBindings()]
                if quantised
                else []
            ),
            *(images.passes() if images else []),
            *([with_scales_in_weights] if faster and not quantised else []),
            *([DispatchSortScan()] if is_gpu_target(chosen) else []),
            transform.EliminateCommonSubexpr(),
            legalize_noted,
            fold_constants,
            # What nobody reads would keep TVM from fusing what it reads.
            transform.DeadCodeElimination(),
            transform.AnnotateTIROpPattern(),
            keep_gates_apart,
            transform.FuseOps(),
            fuse_noted,
            transform.DeadCodeElimination(),
        ]
    with chosen:
        module = tvm.transform.Sequential(steps)(mod) if steps else mod
    told = None
    if quantised:
        module, told = in_whole_numbers(extract(module), products=products)
    if faster and not is_done:
        module = with_packed_weights(extract(module), chosen)
    fused = None if is_done else module
    return PreparedModule(module=module, target=chosen, fused=fused, quantised=told, images=images)


def multiplies_bytes(target: tvm.target.Target) -> bool:
    """True if processors of a target multiply bytes by fours."""
    if is_gpu_target(target):
        return False
    return bool(tvm.target.codegen.target_has_features("avx512vnni", target))


def with_low_precision(prepared: PreparedModule, low: LowPrecision) -> PreparedModule:
    """Prepared module of float32 whose values lie in memory as bfloat16 where that is said.

    On a processor that rounds vectors to bfloat16, kernels do so.
    """
    fused = in_bfloat16(extract(prepared.fused or prepared.module), low)
    target = rounding_target(prepared.target)
    module = with_own_loops(extract(fused), target)
    return replace(prepared, module=module, target=target, fused=fused, low=low)


def bound_module(mod: Any, params: Mapping[str, Any] | None) -> tvm.IRModule:
    """A module with a ``main`` in Relax, whose parameters are constants.

    Raises
    ------
    ModelError
        If there is no such ``main``, or a parameter is unknown or of the wrong shape or type.
    """
    main = main_of(mod) if isinstance(mod, tvm.IRModule) else None
    if main is None:
        found, step = type(mod).__name__, "tvm_ios.from_torch and tvm_ios.from_onnx read others"
        if isinstance(mod, tvm.IRModule):
            found = f"functions {sorted(v.name_hint for v in mod.get_global_vars())}"
            step = "name the model's function 'main'"
        raise ModelError(
            f"expected a tvm.IRModule with a function 'main' in Relax, got {found}; {step}"
        )
    arrays = _checked(main, params_by_name(main, params))
    return relax.transform.BindParams("main", arrays)(mod) if arrays else mod


def params_by_name(main: relax.Function, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Parameters by name, also from the list that ``relax.frontend.detach_params`` has of ``main``.

    Raises
    ------
    ModelError
        If that list has another length than ``main`` has parameters behind its inputs.
    """
    given = {str(name): value for name, value in (params or {}).items()}
    names = [name_of(variable) for variable in main.params]
    listed = given.get("main")
    if not isinstance(listed, list) or "main" in names:
        return given
    weights = names[int((main.attrs or {}).get("num_input", 0)) :]
    if len(listed) != len(weights):
        raise ModelError(
            f"params has {len(listed)} arrays of main, whose parameters behind its inputs are "
            f"{len(weights)}: {', '.join(weights) or 'none'}; give arrays by name"
        )
    return dict(zip(weights, listed, strict=True))


def _trains(main: relax.Function) -> bool:
    """True if something in ``main`` is computed as in training, which TVM's pass overlooks."""
    return any(getattr(call.attrs, "training", False) for call in operator_calls(main))


def _has_plain_norms(main: relax.Function) -> bool:
    """True if norms are such as TVM's pass takes all for when it folds them into convolutions."""
    calls: dict[str, list[Any]] = {}
    for call in operator_calls(main):
        calls.setdefault(call_name(call), []).append(call.attrs)
    norms, convolutions = (calls.get(f"relax.nn.{name}", []) for name in ("batch_norm", "conv2d"))
    return all(
        each.axis == 1 and each.scale and each.center and not each.training for each in norms
    ) and all(
        (each.data_layout, each.out_layout, each.kernel_layout) == ("NCHW", "NCHW", "OIHW")
        for each in convolutions
    )


def _checked(main: relax.Function, params: Mapping[str, Any]) -> dict[str, tvm.runtime.Tensor]:
    """Parameters as tensors of TVM."""
    variables = {name_of(variable): variable for variable in main.params}
    arrays = {}
    for name, value in params.items():
        if name not in variables:
            raise ModelError(
                f"main has no parameter {name!r}; it has {', '.join(variables) or 'none'}"
            )
        array = (
            value
            if isinstance(value, tvm.runtime.Tensor)
            else tvm.runtime.tensor(np.asarray(value))
        )
        found = (tuple(map(int, array.shape)), str(array.dtype))
        expected = static_tensors(variables[name].ty)
        if expected and found != (expected[0].shape, expected[0].dtype):
            raise ModelError(
                f"parameter {name!r} is {found[1]} of shape {found[0]}; main has "
                f"{expected[0].dtype} of shape {expected[0].shape}"
            )
        arrays[name] = array
    return arrays
