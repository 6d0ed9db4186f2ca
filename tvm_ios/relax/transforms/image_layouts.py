"""Layouts of the images of a Relax model: another one for its convolutions, and what follows them.

Comes before operators are lowered. TVM's own pass moves the images, and constants with them.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_ios.relax.ir import call_name
from tvm_ios.relax.transforms.fold import fold_constants
from tvm_ios.relax.transforms.moves import with_equal_splits, with_fewer_moves, with_whole_ranks

__all__ = ["IMAGE_LAYOUTS", "laid_out"]

IMAGE_LAYOUTS = ("NHWC", "NCHW16c", "NCHW8c")
"""Layouts of images that models may be brought into."""
LAYOUT_RULE = "FRelaxInferLayout"
FOLLOWING = ("relax.clip", "relax.dequantize", "relax.nn.leakyrelu", "relax.quantize")
"""Operators that work in any layout, for which TVM has no rule: it would turn images back."""


def laid_out(layout: str) -> list[tvm.transform.Pass]:
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
        with_equal_splits,
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
