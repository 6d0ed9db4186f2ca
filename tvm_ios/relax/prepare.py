"""The first step in Relax: a user's module becomes one ``main`` of kernels, parameters bound.

TVM's own passes do the work; then kernels get loops of ours. Layouts stay as they are in the model,
unless somebody asks for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_ios.errors import ModelError
from tvm_ios.relax.extract import Extraction, extract, is_prepared
from tvm_ios.relax.fold import fold_constants
from tvm_ios.relax.gates import keep_gates_apart
from tvm_ios.relax.ir import call_name, main_of, name_of, operator_calls, static_tensors
from tvm_ios.relax.moves import with_fewer_moves, with_whole_ranks
from tvm_ios.relax.notes import fuse_noted, legalize_noted
from tvm_ios.relax.schedules.in_force import with_own_loops
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.relax.target import resolve_target

__all__ = ["IMAGE_LAYOUTS", "PreparedModule", "prepare"]

IMAGE_LAYOUTS = ("NHWC", "NCHW16c", "NCHW8c")
"""Layouts of images that models may be brought into."""
LAYOUT_RULE = "FRelaxInferLayout"
FOLLOWING = ("relax.clip", "relax.nn.leakyrelu")
"""Operators that work in any layout, for which TVM has no rule: it would turn images back."""


@dataclass(frozen=True, kw_only=True)
class PreparedModule:
    """Module whose ``main`` calls kernels, ready to be extracted, rewritten and built."""

    module: tvm.IRModule
    target: tvm.target.Target
    notes: tuple[str, ...] = ()
    """Lines for the user on how the module was prepared."""
    quantised: None = None
    """Products in int8, of which there are none."""

    @cached_property
    def extraction(self) -> Extraction:
        """Operators of the module, extracted when this is first asked for."""
        return extract(self.module)

    def as_text(self) -> str:
        """TVMScript without constants."""
        return str(self.module.script(show_meta=False))


def prepare(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    image_layout: str | None = None,
) -> PreparedModule:
    """Module with parameters bound, constants folded, operators lowered to kernels, and fused.

    Parameters
    ----------
    mod
        A module of Relax with a ``main``. It is not changed. A prepared one is taken as it is.
    params
        Parameters by the names of ``main``'s variables, as NumPy arrays or tensors of TVM; None
        where all are bound, or weights are inputs on purpose.
    target
        CPU target, as :func:`tvm_ios.relax.target.resolve_target` takes it.
    image_layout
        Layout of the images that 2-D convolutions read and write: ``NHWC``, one with blocks of
        channels (``NHWC`` where channels fill no block), or None for the model's own. Inputs and
        outputs of the model keep theirs.

    Raises
    ------
    ModelError
        If the layout is another one, there is no ``main`` in Relax, a parameter is unknown or of
        the wrong shape or type, or TVM does not have the target.
    """
    chosen = resolve_target(target)
    if image_layout not in (None, *IMAGE_LAYOUTS):
        raise ModelError(
            f"image_layout={image_layout!r}; it is None for the model's own, or one of "
            f"{', '.join(IMAGE_LAYOUTS)}"
        )
    main = main_of(mod) if isinstance(mod, tvm.IRModule) else None
    if main is None:
        found = type(mod).__name__
        if isinstance(mod, tvm.IRModule):
            found = f"functions {sorted(v.name_hint for v in mod.get_global_vars())}"
        raise ModelError(
            f"expected a tvm.IRModule with a function 'main' in Relax, got {found}; name the "
            "model's function 'main'"
        )
    arrays = _checked(main, params or {})
    transform = relax.transform
    steps = [transform.BindParams("main", arrays)] if arrays else []
    is_done = is_partitioned(mod) or is_prepared(mod)
    if not is_done:
        steps += [
            transform.Normalize(),
            transform.ConvertToDataflow(),
            *([transform.FoldBatchnormToConv2D()] if _has_plain_norms(main) else []),
            *([] if _trains(main) else [transform.DecomposeOpsForInference()]),
            transform.CanonicalizeBindings(),
            fold_constants,
            *(_laid_out(image_layout) if image_layout else []),
            transform.EliminateCommonSubexpr(),
            legalize_noted,
            fold_constants,
            transform.AnnotateTIROpPattern(),
            keep_gates_apart,
            transform.FuseOps(),
            fuse_noted,
            transform.DeadCodeElimination(),
        ]
    with chosen:
        module = tvm.transform.Sequential(steps)(mod) if steps else mod
    if not is_done:
        module = with_own_loops(extract(module), chosen)
    return PreparedModule(module=module, target=chosen)


def _laid_out(layout: str) -> list[tvm.transform.Pass]:
    """Passes that bring images into another layout, and constants with them."""
    transform = relax.transform
    for name in FOLLOWING:
        operator = tvm.ir.Op.get(name)
        if operator.get_attr(LAYOUT_RULE) is None:
            rule = tvm.ir.Op.get("relax.nn.relu").get_attr(LAYOUT_RULE)
            tvm.ir.register_op_attr(name, LAYOUT_RULE, rule)

    def chosen(call: relax.Call) -> dict[str, list[str]]:
        name = call_name(call)
        return {name: [*_layouts_of(call, layout)]} if name == "relax.nn.conv2d" else {}

    return [
        with_whole_ranks,
        transform.ConvertLayout({}, chosen),
        transform.Normalize(),
        fold_constants,
        with_fewer_moves,
    ]


def _layouts_of(call: relax.Call, layout: str) -> tuple[str, str]:
    """Layouts of images and weights of a convolution: without blocks where channels fill none."""
    block = int(layout.removeprefix("NCHW").removesuffix("c")) if layout.endswith("c") else 1
    outputs, inputs, *_ = map(int, call.args[1].ty.shape)
    if block == 1 or outputs % block or (inputs * call.attrs.groups) % block:
        return "NHWC", "HWIO"
    if call.attrs.groups == 1:
        return layout, f"OIHW{block}i{block}o"
    is_depthwise = inputs == 1 and call.attrs.groups == outputs
    return (layout, f"OIHW1i{block}o") if is_depthwise else ("NHWC", "HWIO")


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
