"""Layouts of the images of a Relax model: another one for its convolutions, and what follows them.

Comes before operators are lowered. TVM's own pass moves the images, and constants with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.image_layouts import (
    BLOCKS,
    CHANNELS_LAST,
    ConvolutionSizes,
    ImageForm,
    ImagePlaces,
    PlaceReader,
)
from tvm_ios.errors import ModelError
from tvm_ios.relax.ir import call_name, main_of, operator_calls, static_tensors
from tvm_ios.relax.transforms.fold import fold_constants
from tvm_ios.relax.transforms.moves import with_equal_splits, with_fewer_moves, with_whole_ranks

__all__ = ["IMAGE_LAYOUTS", "ImageLayouts", "blocks_of", "sizes_of"]

IMAGE_LAYOUTS = ("NHWC", "NCHW16c", "NCHW8c")
"""Layouts of images that models may be brought into."""
LAYOUT_RULE = "FRelaxInferLayout"
FOLLOWING = ("relax.clip", "relax.dequantize", "relax.nn.leakyrelu", "relax.quantize")
"""Operators that work in any layout, for which TVM has no rule: it would turn images back."""
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


def blocks_of(target: tvm.target.Target) -> str:
    """Layout with blocks of channels that fill a vector of a target."""
    block = 16 if tvm.target.codegen.target_has_features("avx512f", target) else 8
    return f"NCHW{block}c"


class ImageLayouts:
    """Layouts of one model's images, and its places, which are read as it is laid out.

    Parameters
    ----------
    wanted
        One of :data:`IMAGE_LAYOUTS` for all convolutions, or a form that says the layout of each.
        Where channels fill no block, and in groups, it is ``NHWC``.
    blocks
        Layout with blocks that a form means.
    """

    def __init__(self, wanted: str | ImageForm, blocks: str) -> None:
        self._wanted, self._blocks = wanted, blocks
        self.places: Places = ImagePlaces()
        """Places of the model before it is laid out."""
        self._kept: list[str] = []

    @property
    def form(self) -> ImageForm:
        """Form that the model has got."""
        return ImageForm(
            layouts=tuple(CHANNELS_LAST if each == "NHWC" else BLOCKS for each in self._kept)
        )

    def passes(self) -> list[tvm.transform.Pass]:
        """Passes that lay a model out.

        They raise :class:`~tvm_ios.errors.ModelError` if the form is of another number of
        convolutions.
        """
        for name in FOLLOWING:
            operator = tvm.ir.Op.get(name)
            if not _has_rule(operator):
                rule = tvm.ir.Op.get("relax.nn.relu").get_attr(LAYOUT_RULE)
                tvm.ir.register_op_attr(name, LAYOUT_RULE, rule)
        return [
            with_whole_ranks,
            with_equal_splits,
            tvm.transform.module_pass(self._laid_out, opt_level=0, name="LayOutImages"),
            relax.transform.Normalize(),
            fold_constants,
            with_fewer_moves,
        ]

    def _laid_out(self, module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        main = main_of(module)
        assert main is not None, "it was looked for"
        calls = [each for each in operator_calls(main) if call_name(each) == CONVOLUTION]
        wanted = self._wanted_of(len(calls))
        layouts = [_layouts_of(*each) for each in zip(calls, wanted, strict=True)]
        self._kept = [images for images, _ in layouts]
        self.places = _places_of(main, _block(self._blocks))
        left = iter(layouts)

        def chosen(call: relax.Call) -> dict[str, list[str]]:
            return {CONVOLUTION: [*next(left)]} if call_name(call) == CONVOLUTION else {}

        return relax.transform.ConvertLayout({}, chosen)(module)

    def _wanted_of(self, count: int) -> Sequence[str]:
        if isinstance(self._wanted, str):
            return [self._wanted] * count
        layouts = self._wanted.layouts
        if len(layouts) != count:
            raise ModelError(
                f"the form has layouts of {len(layouts)} convolutions, and the model has {count}; "
                "search again for this model"
            )
        return ["NHWC" if each == CHANNELS_LAST else self._blocks for each in layouts]


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


def _block(layout: str) -> int:
    return int(layout.removeprefix("NCHW").removesuffix("c")) if layout.endswith("c") else 1


def _layouts_of(call: relax.Call, layout: str) -> tuple[str, str]:
    """Layouts of images and weights of a convolution: without blocks where channels fill none."""
    block = _block(layout)
    outputs, inputs, *_ = map(int, call.args[1].ty.shape)
    if block == 1 or outputs % block or (inputs * call.attrs.groups) % block:
        return "NHWC", "HWIO"
    if call.attrs.groups == 1:
        return layout, f"OIHW{block}i{block}o"
    is_depthwise = inputs == 1 and call.attrs.groups == outputs
    return (layout, f"OIHW1i{block}o") if is_depthwise else ("NHWC", "HWIO")


def _places_of(main: relax.Function, block: int) -> Places:
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
    images = [each for each in _variables(call) if reader.has(each)]
    sized = [(each, _bytes_of(each)) for each in images]
    if call_name(call) == CONVOLUTION:
        reader.convolution(result, sized, _sizes_of_call(call))
    elif images and _follows(call):
        channels = [each for value in (*images, call) for each in _channels_of(value)]
        joins = call_name(call) == "relax.concat"
        reader.follower(
            result, sized, channels=channels if _is_along_channels(call) else (), joins=joins
        )


def _variables(call: relax.Call) -> Iterator[relax.Var]:
    """Variables among the arguments of a call, those of a tuple one by one."""
    for argument in call.args:
        values = argument.fields if isinstance(argument, relax.Tuple) else [argument]
        yield from (each for each in values if isinstance(each, relax.Var))


def _follows(call: relax.Call) -> bool:
    if not isinstance(call.op, tvm.ir.Op) or call_name(call) in PLAIN or not _has_rule(call.op):
        return False
    made = static_tensors(call.ty)
    return made is not None and all(len(each.shape) == len(BLOCKS) for each in made)


def _has_rule(operator: tvm.ir.Op) -> bool:
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
        math.prod(each.shape) * np.dtype(each.dtype).itemsize
        for each in static_tensors(value.ty) or ()
    )


def _sizes_of_call(call: relax.Call) -> Sizes:
    types = [static_tensors(each.ty) for each in (*call.args[:2], call)]
    attributes: Any = call.attrs
    layouts = (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
    if any(each is None for each in types):
        return None
    shapes = [each[0].shape for each in types if each]
    return ConvolutionSizes.read(layouts, shapes, tuple(map(int, attributes.strides)))
