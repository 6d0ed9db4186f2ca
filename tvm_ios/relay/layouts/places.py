"""Places of a model that have a layout: its convolutions, with what follows each of them.

Reads a typed module before it is prepared. TVM lets element-wise operators, poolings and
concatenations follow the layout of their first image, and so they belong to its place here; another
image of theirs is moved where it has another layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import graph_order, is_call_of
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.transforms.conversion import CONVOLUTIONS
from tvm_ios.relay.transforms.quantised.whole_numbers import whole_numbers_of

__all__ = ["ImagePlaces", "convolutions_of", "has_images", "image_places"]

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


@dataclass(slots=True)
class ImagePlaces:
    """Places of one model."""

    convolutions: list[relay.Call] = field(default_factory=list)
    """Convolution of each place."""
    copied_bytes: list[int] = field(default_factory=list)
    """Bytes that operators at each place copy with channels last only."""
    unblocked_bytes: list[int] = field(default_factory=list)
    """Bytes at each place that leave their blocks of channels and go back, since they are cut or
    joined where no block ends."""
    moved_bytes: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Bytes that go from place to place, laid out anew if their layouts differ."""
    joined_bytes: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Bytes of concatenations of data from both places. TVM lays all of them out in plain axes if
    the layouts differ, and so what follows."""


def convolutions_of(module: tvm.IRModule) -> list[relay.Call]:
    """Convolutions of ``main``, transposed ones included, each of which has a place, in order."""
    return [each for each in graph_order(module["main"].body) if is_call_of(each, *CONVOLUTIONS)]


def has_images(module: tvm.IRModule) -> bool:
    """True if ``main`` has a convolution, and so a place."""
    return bool(convolutions_of(module))


def image_places(module: tvm.IRModule, block: int) -> ImagePlaces:
    """Places of the images in ``main`` of a typed module, in the order of its convolutions.

    ``block`` is the number of channels in a block.
    """
    places = ImagePlaces()
    place_of: dict[relay.Expr, int] = {}
    for expression in graph_order(module["main"].body):
        if isinstance(expression, relay.Call):
            _read_call(expression, places, place_of, block)
        elif isinstance(expression, relay.TupleGetItem) and expression.tuple_value in place_of:
            place_of[expression] = place_of[expression.tuple_value]
    return places


def _read_call(
    call: relay.Call, places: ImagePlaces, place_of: dict[relay.Expr, int], block: int
) -> None:
    images = _placed_images(call, place_of)
    if is_call_of(call, *CONVOLUTIONS):
        place_of[call] = place = len(places.convolutions)
        places.convolutions.append(call)
        places.copied_bytes.append(0)
        places.unblocked_bytes.append(0)
    elif images and _follows(call):
        place_of[call] = place = place_of[images[0]]
        if is_call_of(call, *COPYING) and _along_channels(call):
            copied = sum(map(_bytes_of, images))
            places.copied_bytes[place] += copied
            if any(channels % block for channels in _channels_of(call, images)):
                places.unblocked_bytes[place] += copied
    else:
        return
    for other, image in ((place_of[image], image) for image in images):
        if other != place:
            places.moved_bytes[other, place] += _bytes_of(image)
            if is_call_of(call, "concatenate"):
                places.joined_bytes[other, place] += sum(map(_bytes_of, images))


def _placed_images(call: relay.Call, place_of: Mapping[relay.Expr, int]) -> list[relay.Expr]:
    """Arguments that lie at a place, those of a tuple one by one."""
    flat = [
        each
        for argument in call.args
        for each in (argument.fields if isinstance(argument, relay.Tuple) else [argument])
    ]
    return [each for each in flat if each in place_of]


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
