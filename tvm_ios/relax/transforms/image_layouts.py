"""Layouts of the images of a Relax model: another one for its convolutions, and what follows them.

Comes before operators are lowered. TVM's own pass moves the images, and constants with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from tvm_ios.core.image_layouts import (
    BLOCKS,
    CHANNELS_LAST,
    ImageForm,
    ImagePlaces,
)
from tvm_ios.errors import ModelError
from tvm_ios.relax.ir import call_name, main_of, operator_calls
from tvm_ios.relax.transforms.fold import fold_constants
from tvm_ios.relax.transforms.image_places import (
    CONVOLUTION,
    LAYOUT_RULE,
    Places,
    has_layout_rule,
    image_places,
)
from tvm_ios.relax.transforms.moves import with_equal_splits, with_fewer_moves, with_whole_ranks

__all__ = ["IMAGE_LAYOUTS", "ImageLayouts", "blocks_of"]

IMAGE_LAYOUTS = ("NHWC", "NCHW16c", "NCHW8c")
"""Layouts of images that models may be brought into."""
FOLLOWING = ("relax.clip", "relax.dequantize", "relax.nn.leakyrelu", "relax.quantize")
"""Operators that work in any layout, for which TVM has no rule: it would turn images back."""


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
            if not has_layout_rule(operator):
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
        self.places = image_places(main, _block(self._blocks))
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
