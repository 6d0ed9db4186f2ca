"""Places of the images of a Relay model, read from a typed module before it is prepared."""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.core.image_layouts import ImagePlaces, PlaceReader
from tvm_ios.relay.dataflow import graph_order, is_call_of
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.transforms.conversion import CONVOLUTIONS
from tvm_ios.relay.transforms.quantised.whole_numbers import whole_numbers_of

__all__ = ["convolutions_of", "has_images", "image_places"]

RANK = 4
MOVERS = frozenset(
    {
        "batch_flatten",
        "expand_dims",
        "image.grid_sample",
        "layout_transform",
        "nn.batch_flatten",
        "nn.batch_matmul",
        "nn.depth_to_space",
        "nn.space_to_depth",
        "reshape",
        "squeeze",
        "transpose",
    }
)
"""Operators that need plain axes, or make them."""
COPYING = frozenset({"concatenate", "split", "strided_slice"})
"""Operators that copy runs of channels where channels lie last, and are views in blocks."""


def convolutions_of(module: tvm.IRModule) -> list[relay.Call]:
    """Convolutions of ``main``, transposed ones included, each of which has a place, in order."""
    return [each for each in graph_order(module["main"].body) if is_call_of(each, *CONVOLUTIONS)]


def has_images(module: tvm.IRModule) -> bool:
    """True if ``main`` has a convolution, and so a place."""
    return bool(convolutions_of(module))


def image_places(module: tvm.IRModule, block: int) -> ImagePlaces[relay.Call]:
    """Places of the images in ``main`` of a typed module, in the order of its convolutions.

    ``block`` is the number of channels in a block.
    """
    reader: PlaceReader[relay.Call] = PlaceReader(block)
    for expression in graph_order(module["main"].body):
        if isinstance(expression, relay.Call):
            _read_call(expression, reader)
        elif isinstance(expression, relay.TupleGetItem):
            reader.same(expression, expression.tuple_value)
    return reader.places


def _read_call(call: relay.Call, reader: PlaceReader[relay.Call]) -> None:
    images = [each for each in _arguments(call) if reader.has(each)]
    sized = [(each, _bytes_of(each)) for each in images]
    if is_call_of(call, *CONVOLUTIONS):
        reader.convolution(call, sized, call)
    elif images and _follows(call):
        copies = is_call_of(call, *COPYING) and _along_channels(call)
        channels = _channels_of(call, images) if copies else []
        reader.follower(call, sized, channels=channels, joins=is_call_of(call, "concatenate"))


def _arguments(call: relay.Call) -> list[relay.Expr]:
    """Arguments of a call, those of a tuple one by one."""
    return [
        each
        for argument in call.args
        for each in (argument.fields if isinstance(argument, relay.Tuple) else [argument])
    ]


def _follows(call: relay.Call) -> bool:
    if not isinstance(call.op, tvm.ir.Op) or call.op.name in MOVERS:
        return False
    return all(len(result.shape) == RANK for result in _results_of(call))


def _along_channels(call: relay.Call) -> bool:
    axes = call_attribute(call, "axes" if is_call_of(call, "strided_slice") else "axis")
    named = [axes] if isinstance(axes, int | tvm.tir.IntImm) else axes or ()
    return any(int(axis) % RANK == 1 for axis in named)


def _channels_of(call: relay.Call, images: list[relay.Expr]) -> list[int]:
    """Channels of the images that go into a call, and of those that come out."""
    types = (*(image.checked_type for image in images), *_results_of(call))
    return [int(each.shape[1]) for each in types]


def _results_of(call: relay.Call) -> list[tvm.ir.TensorType]:
    type_ = call.checked_type
    return list(type_.fields) if isinstance(type_, tvm.ir.TupleType) else [type_]


def _bytes_of(image: relay.Expr) -> int:
    size = type_bytes(image.checked_type)
    return size if whole_numbers_of(image) is None else size // 4  # whole numbers have a byte each
