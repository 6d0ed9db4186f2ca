"""Places of the images of a Relax model, and sizes of its convolutions, lowered or not."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import tvm
from tvm import relax

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.image_layouts import BLOCKS, ConvolutionSizes, ImagePlaces, PlaceReader
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.relax.ir import call_name, static_tensors, variables_in

__all__ = [
    "CONVOLUTION",
    "LAYOUT_RULE",
    "Places",
    "has_layout_rule",
    "image_places",
    "sizes_of",
]

LAYOUT_RULE = "FRelaxInferLayout"
"""Attribute of operators that TVM brings into other layouts."""
Sizes: TypeAlias = "ConvolutionSizes | None"
"""Sizes of a convolution; None where its axes are not known."""
Places: TypeAlias = "ImagePlaces[Sizes]"
CONVOLUTION = "relax.nn.conv2d"
PLAIN = frozenset(
    f"relax.{name}"
    for name in ("expand_dims", "nn.conv2d_transpose", "permute_dims", "reshape", "squeeze")
)
"""Operators that need plain axes, or make them, though TVM has a rule for them."""
ALONG = {"relax.concat": 0, "relax.split": 0, "relax.strided_slice": 1}
"""Operators that copy runs of channels where channels lie last, and are views in blocks; 1 where
axes are an argument."""


def sizes_of(function: FusedFunction) -> Sizes:
    """Sizes of the convolution in a function, whatever its layout; None without one."""
    for call in function.calls:
        if call.operator != CONVOLUTION.removeprefix("relax."):
            continue
        types = [*function.parameters, *(each.result for each in function.calls)]
        data, kernel = (types[number].shape for number in call.operands[:2])
        layouts = [str(call.attribute(f"{name}_layout")) for name in ("data", "kernel", "out")]
        strides = call.wholes("strides")
        return ConvolutionSizes.read(layouts, (data, kernel, call.result.shape), strides)
    return None


def image_places(main: relax.Function, block: int) -> Places:
    """Places of the convolutions of ``main``, in order."""
    reader: PlaceReader[Sizes] = PlaceReader(block)
    for binding in (each for bound in main.body.blocks for each in bound.bindings):
        value = binding.value
        if isinstance(value, relax.Call):
            _read_call(binding.var, value, reader)
        else:
            reader.same(binding.var, getattr(value, "tuple_value", value))
    return reader.places


def _read_call(result: relax.Var, call: relax.Call, reader: PlaceReader[Sizes]) -> None:
    images = [each for each in variables_in(call) if reader.has(each)]
    sized = [(each, _bytes_of(each)) for each in images]
    if call_name(call) == CONVOLUTION:
        reader.convolution(result, sized, _sizes_of_call(call))
    elif images and _follows(call):
        channels = [each for value in (*images, call) for each in _channels_of(value)]
        joins = call_name(call) == "relax.concat"
        reader.follower(
            result, sized, channels=channels if _is_along_channels(call) else (), joins=joins
        )


def _follows(call: relax.Call) -> bool:
    if (
        not isinstance(call.op, tvm.ir.Op)
        or call_name(call) in PLAIN
        or not has_layout_rule(call.op)
    ):
        return False
    made = static_tensors(call.ty)
    return made is not None and all(len(each.shape) == len(BLOCKS) for each in made)


def has_layout_rule(operator: tvm.ir.Op) -> bool:
    """True if TVM can bring an operator's images into another layout."""
    return operator.get_attr(LAYOUT_RULE) is not None


def _is_along_channels(call: relax.Call) -> bool:
    which = ALONG.get(call_name(call))
    if which is None:
        return False
    axes = call.args[1].fields if which else [call.attrs.axis]
    return any(int(axis) % len(BLOCKS) == BLOCKS.index("C") for axis in axes)


def _channels_of(value: relax.Expr) -> list[int]:
    return [each.shape[BLOCKS.index("C")] for each in static_tensors(value.ty) or ()]


def _bytes_of(value: relax.Expr) -> int:
    return sum(
        math.prod(each.shape) * dtype_bytes(each.dtype) for each in static_tensors(value.ty) or ()
    )


def _sizes_of_call(call: relax.Call) -> Sizes:
    types = [static_tensors(each.ty) for each in (*call.args[:2], call)]
    attributes: Any = call.attrs
    layouts = (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
    if any(each is None for each in types):
        return None
    shapes = [each[0].shape for each in types if each]
    return ConvolutionSizes.read(layouts, shapes, tuple(map(int, attributes.strides)))
