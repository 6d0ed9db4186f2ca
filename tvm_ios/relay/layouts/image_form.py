"""A model in a form of its images: some transposed convolutions written anew, all laid out.

Comes before ``prepare``. Channels in blocks are padded to whole ones; those that lie last are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_ios.core.image_layouts import CHANNELS_LAST, ImageForm
from tvm_ios.errors import ModelError
from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.inputs import CheckedModule
from tvm_ios.relay.layouts.places import convolutions_of
from tvm_ios.relay.transforms.bound_model import bound_model, in_parts
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.relay.transforms.conversion import lay_out
from tvm_ios.relay.transforms.transposed_convolution import convolve_transposed
from tvm_ios.relay.transforms.whole_transposed import keep_transposed_whole

__all__ = ["in_form", "lay_out_small_images", "with_written"]

ENLARGEMENT = "image.resize2d"
KEPT = (
    "size",
    "roi",
    "method",
    "coordinate_transformation_mode",
    "rounding_method",
    "cubic_alpha",
    "cubic_exclude",
    "extrapolation_value",
)
"""Attributes of an enlargement beside its layout."""


def in_form(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None,
    form: ImageForm,
    target: Any,
    *,
    pads: bool = True,
) -> tuple[tvm.IRModule, str]:
    """Module in a form, with parameters bound, and a line that says what the form is.

    Without ``pads`` no channels are padded.

    Raises
    ------
    ModelError
        If the form is of a model with other convolutions.
    """
    bound = with_written(in_parts(bound_model(mod, params)), form.written)
    convolutions = convolutions_of(bound)
    if len(convolutions) != len(form.layouts):
        raise ModelError(
            f"the form has layouts of {len(form.layouts)} convolutions, and the model has "
            f"{len(convolutions)}; search again for this model"
        )
    laid_out = lay_out(bound, dict(zip(convolutions, form.layouts, strict=True)))
    laid_out, whole = keep_transposed_whole(lay_out_small_images(laid_out))
    padded = 0
    if pads:
        laid_out, padded = pad_channels(CheckedModule(laid_out), {}, target, dense=False)
    last = form.layouts.count(CHANNELS_LAST)
    blocks = len(convolutions) - last
    told = f"{last} convolutions have channels last and {blocks} blocks of channels, by prices"
    told += f"; {padded} are padded to whole blocks" if padded else ""
    told += f"; {whole} transposed ones stay in one piece" if whole else ""
    told += f"; {len(form.written)} were transposed ones" if form.written else ""
    return laid_out, told


def with_written(bound: tvm.IRModule, written: tuple[int, ...]) -> tvm.IRModule:
    """Bound module with these transposed convolutions, by number, written as convolutions."""
    return convolve_transposed(CheckedModule(bound), {}, written)[0] if written else bound


def lay_out_small_images(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module whose enlarged images have the layout of their only reader.

    TVM lets an enlargement follow the layout of its data, and lays the result out anew; its data
    are smaller.
    """
    body = module["main"].body
    order = graph_order(body)
    readers = readers_of(order)
    late = {each for each in order if is_call_of(each, "layout_transform") and _is_late(each)}
    late = {each for each in late if len(readers[each.args[0]]) == 1}
    if not late:
        return module

    def rewritten(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in late:
            return copy_call(call, arguments)
        source, wanted = (str(call_attribute(call, f"{end}_layout")) for end in ("src", "dst"))
        (enlarged,) = arguments
        attributes = {name: call_attribute(enlarged, name) for name in KEPT}
        data = relay.layout_transform(enlarged.args[0], source, wanted)
        return relay.image.resize2d(data, layout=wanted, **attributes)

    return with_body(module, rebuild(body, {}, rewritten))


def _is_late(call: relay.Call) -> bool:
    """True if a call lays out images anew that an operator has enlarged just before."""
    (value,) = call.args
    return (
        is_call_of(value, ENLARGEMENT)
        and not call_attribute(value, "out_dtype")
        and type_bytes(value.checked_type) > type_bytes(value.args[0].checked_type)
    )
