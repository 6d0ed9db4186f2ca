"""Layouts changed in front of operators that enlarge images, not behind them.

Comes after layouts were given to convolutions. TVM lets an enlargement follow the layout of its
data, and lays the result out anew; its data are smaller.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes

__all__ = ["lay_out_small_images"]

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


def lay_out_small_images(module: tvm.IRModule) -> tvm.IRModule:
    """Typed module whose enlarged images have the layout of their only reader."""
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
