"""Transposed convolutions of NHWC data kept in one piece, for operator libraries.

TVM has kernels for NCHW only: it lays data out anew before each transposed convolution of NHWC, and
back behind it, by operators of their own. Here these become parts of the convolution's function,
with the bias and activations that follow, before TVM takes them apart. Its own kernel for such a
function is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import tvm
from tvm import relay

from tvm_ios.relay.constants import constant, is_array
from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    readers_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.transforms.bound_model import in_parts
from tvm_ios.relay.transforms.transposed_convolution import (
    ACTIVATIONS,
    BINARY,
    TRANSPOSED,
    has_transposed,
)

__all__ = ["keep_transposed_whole"]

CURVED = frozenset({"sigmoid", "tanh"})
FEWEST_CHANNELS = 8
"""Fewest channels for a curve: with fewer, a library computes place by place, TVM whole vectors."""
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
KERNEL = "IOHW"
"""Layout of weights that TVM's kernels take."""


def keep_transposed_whole(module: tvm.IRModule) -> tuple[tvm.IRModule, int]:
    """Module with transposed convolutions of NHWC data in fused functions, and their number.

    Only those of one group with constant weights. The module has bound parameters, and comes before
    TVM's pipeline; without such convolutions it is returned itself.
    """
    if not has_transposed(module):
        return module, 0
    parts = in_parts(module)
    body = parts["main"].body
    order = graph_order(body)
    readers = readers_of(order)
    chains = {chain[-1]: chain for each in order if (chain := _chain(each, readers))}
    if not chains:
        return module, 0
    heads = {chain[0] for chain in chains.values()}
    data: dict[relay.Call, relay.Expr] = {}

    def rewritten(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call in heads:
            data[call] = arguments[0]
        chain = chains.get(call)
        return _fused(chain, data[chain[0]]) if chain else copy_call(call, arguments)

    return with_body(parts, rebuild(body, {}, rewritten)), len(chains)


def _chain(
    head: relay.Expr, readers: Mapping[relay.Expr, Sequence[relay.Expr]]
) -> list[relay.Call]:
    """Transposed convolution of NHWC data and the elementwise steps after it; empty for others."""
    if not is_call_of(head, TRANSPOSED) or not is_array(head.args[1]):
        return []
    if str(call_attribute(head, "data_layout")) != "NHWC" or call_attribute(head, "groups") != 1:
        return []
    chain = [head]
    while len(found := readers[chain[-1]]) == 1 and _is_step(found[0], chain[-1]):
        chain.append(found[0])
    return chain


def _is_step(reader: relay.Expr, value: relay.Expr) -> bool:
    """True if a reader does the same to each element of a value, or to those of each channel."""
    if not is_call_of(reader, *BINARY, *ACTIVATIONS):
        return False
    if is_call_of(reader, *CURVED) and int(reader.checked_type.shape[-1]) < FEWEST_CHANNELS:
        return False
    return all(is_array(each) for each in reader.args if each != value)


def _fused(chain: list[relay.Call], data: relay.Expr) -> relay.Call:
    """Call of one function that computes a chain, with its constants among the arguments."""
    first = chain[0]
    layout = str(call_attribute(first, "kernel_layout"))
    axes = [layout.index(axis) for axis in KERNEL]
    weight = first.args[1].data.numpy().transpose(axes)
    arguments: list[relay.Expr] = [data, constant(weight)]
    image = relay.var("data", first.args[0].checked_type)
    parameters = [image, relay.var("weight", shape=weight.shape, dtype=str(weight.dtype))]
    names = ("strides", "padding", "dilation", "output_padding", "out_dtype", "channels")
    value = relay.nn.conv2d_transpose(
        relay.transpose(image, TO_NCHW),
        parameters[1],
        kernel_size=weight.shape[2:],
        kernel_layout=KERNEL,
        **{name: call_attribute(first, name) for name in names},
    )
    value = relay.transpose(value, TO_NHWC)
    for before, call in pairwise(chain):
        own: list[relay.Expr] = []
        for argument in call.args:
            if argument == before:
                own.append(value)
                continue
            # Of all axes: TVM would add the missing ones in the function, in every run.
            values = argument.data.numpy()
            values = values.reshape((1,) * (4 - values.ndim) + values.shape)
            arguments.append(constant(values))
            shape, dtype = values.shape, str(values.dtype)
            parameters.append(relay.var(f"p{len(parameters)}", shape=shape, dtype=dtype))
            own.append(parameters[-1])
        value = copy_call(call, own)
    function = relay.Function(parameters, value)
    fused = function.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return relay.Call(fused, arguments)
