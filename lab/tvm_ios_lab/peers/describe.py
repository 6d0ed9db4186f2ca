"""Describe a Relay module of ``tvm_ios.models`` as plain data; needs TVM.

What takes Relay several operators and the peers one is found first, by TVM's own patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import sqrt

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern, is_constant, is_expr, is_op, is_var, wildcard

from tvm_ios.relay.dataflow import graph_order
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Network, Node, Operator

__all__ = ["describe"]

_PLAIN = {
    "add": Operator.ADD,
    "clip": Operator.RELU6,
    "concatenate": Operator.CONCATENATE,
    "multiply": Operator.MULTIPLY,
    "nn.batch_flatten": Operator.FLATTEN,
    "nn.global_avg_pool2d": Operator.GLOBAL_AVERAGE_POOL,
    "nn.adaptive_avg_pool3d": Operator.GLOBAL_AVERAGE_POOL,
    "nn.relu": Operator.RELU,
    "reshape": Operator.RESHAPE,
    "tanh": Operator.TANH,
}
_BIASED = {
    "nn.conv2d": Operator.CONVOLUTION,
    "nn.conv3d": Operator.CONVOLUTION,
    "nn.conv2d_transpose": Operator.TRANSPOSED_CONVOLUTION,
    "nn.dense": Operator.DENSE,
}
"""Described together with the bias that is added to them."""
_POOLS = {"nn.max_pool2d": Operator.MAX_POOL, "nn.avg_pool2d": Operator.AVERAGE_POOL}
# Attributes that the description has no word for, and the only value each may have.
_EXPECTED: Mapping[str, Mapping[str, object]] = {
    "clip": {"a_min": 0.0, "a_max": 6.0},
    "concatenate": {"axis": 1},
    "nn.adaptive_avg_pool3d": {"layout": "NCDHW", "output_size": (1, 1, 1)},
    "nn.avg_pool2d": {"layout": "NCHW", "dilation": (1, 1), "count_include_pad": True},
    "nn.bias_add": {"axis": 1},
    "nn.conv2d": {"data_layout": "NCHW", "kernel_layout": "OIHW", "dilation": (1, 1)},
    "nn.conv3d": {"data_layout": "NCDHW", "kernel_layout": "OIDHW", "dilation": (1, 1, 1)},
    "nn.conv2d_transpose": {
        "data_layout": "NCHW",
        "kernel_layout": "IOHW",
        "dilation": (1, 1),
        "groups": 1,
        "output_padding": (0, 0),
    },
    "nn.global_avg_pool2d": {"layout": "NCHW"},
    "nn.layer_norm": {"axis": -1, "center": True, "scale": True},
    "nn.max_pool2d": {"layout": "NCHW", "dilation": (1, 1)},
    "take": {"axis": 0, "mode": "clip"},
}
_MATRIX = 2
"""Axes of rows of features."""
_LABEL = "Composite"
"""Attribute of the functions that TVM makes of what a pattern matches."""


def _constant(value: float) -> DFPattern:
    return is_expr(relay.const(value))


def _hard_sigmoid(operand: DFPattern) -> DFPattern:
    clipped = is_op("clip")(is_op("add")(operand, _constant(3.0)))
    return is_op("multiply")(clipped.has_attr({"a_min": 0.0, "a_max": 6.0}), _constant(1 / 6))


def _hard_swish() -> DFPattern:
    operand = wildcard()
    return is_op("multiply")(operand, _hard_sigmoid(operand))


def _gelu() -> DFPattern:
    operand = wildcard()
    gate = is_op("erf")(is_op("multiply")(operand, _constant(1 / sqrt(2))))
    half = is_op("multiply")(operand, _constant(0.5))
    return is_op("multiply")(half, is_op("add")(gate, _constant(1.0)))


def _scale_shift() -> DFPattern:
    return is_op("add")(is_op("multiply")(wildcard(), is_var()), is_var())


def _attention() -> DFPattern:
    def split(operand: DFPattern) -> DFPattern:
        return is_op("reshape")(is_op("transpose")(is_op("reshape")(operand)))

    scores = is_op("nn.batch_matmul")(split(wildcard()), split(wildcard()))
    shares = is_op("nn.softmax")(is_op("multiply")(scores, is_constant()))
    read = is_op("nn.batch_matmul")(shares, split(wildcard()))
    return split(read)


_PATTERNS = [
    (Operator.HARD_SWISH.value, _hard_swish()),
    (Operator.HARD_SIGMOID.value, _hard_sigmoid(wildcard())),
    (Operator.GELU.value, _gelu()),
    (Operator.SCALE_SHIFT.value, _scale_shift()),
    (Operator.ATTENTION.value, _attention()),
]
"""The first one that matches is taken."""

_Names = Mapping[relay.Expr, str]


def describe(module: tvm.IRModule, *, name: str, batch_size: int = 1) -> Network:
    """Describe a network that a function of :mod:`tvm_ios.models` returned.

    Parameters
    ----------
    module
        Type-checked; the first parameter of ``main`` is the input, the others are weights.
    name
        Name of the network.
    batch_size
        Images or sequences in the input.
    """
    passes = [relay.transform.MergeComposite(_PATTERNS), relay.transform.InferType()]
    function = tvm.transform.Sequential(passes)(module)["main"]
    data = function.params[0]
    names = {parameter: parameter.name_hint for parameter in function.params}
    nodes: list[Node] = []
    for call in graph_order(function.body):
        if isinstance(call, relay.Call) and not _waits_for_bias(call):
            names[call] = f"t{len(nodes)}"
            nodes.append(_node(call, names))
    if not nodes or names.get(function.body) != nodes[-1].output:
        raise PeerError(f"{name}: the output is not that of an operator the peers have")
    return Network(
        name=name,
        batch_size=batch_size,
        input=data.name_hint,
        input_shape=_shape(data),
        input_dtype=data.checked_type.dtype,
        output=nodes[-1].output,
        macs=sum(node.macs for node in nodes),
        nodes=tuple(nodes),
    )


def _waits_for_bias(call: relay.Call) -> bool:
    return isinstance(call.op, tvm.ir.Op) and call.op.name in _BIASED


def _node(call: relay.Call, names: _Names) -> Node:
    if isinstance(call.op, relay.Function):
        return _composite(call, names)
    operator = call.op.name
    _require_expected(call)
    if operator == "nn.bias_add":
        return _biased(call, names)
    if operator in _POOLS:
        return _pool(call, names)
    if operator in _OF_THEIR_OWN:
        return _OF_THEIR_OWN[operator](call, names)
    if operator not in _PLAIN:
        raise PeerError(
            f"operator {operator} has no word in the description; add it to describe.py"
        )
    operands = call.args[0].fields if operator == "concatenate" else call.args
    return Node(
        operator=_PLAIN[operator],
        output=names[call],
        inputs=tuple(_name(operand, names) for operand in operands),
        shape=_shape(call),
    )


def _pool(call: relay.Call, names: _Names) -> Node:
    attributes = call.attrs
    return Node(
        operator=_POOLS[call.op.name],
        output=names[call],
        inputs=(_name(call.args[0], names),),
        shape=_shape(call),
        kernel=_extents(attributes.pool_size),
        strides=_extents(attributes.strides),
        padding=_padding(call),
        round_up=bool(attributes.ceil_mode),
    )


def _biased(biased: relay.Call, names: _Names) -> Node:
    call, bias = biased.args
    if not (isinstance(call, relay.Call) and _waits_for_bias(call)):
        raise PeerError("a bias is added to something else than a convolution; extend describe.py")
    _require_expected(call)
    operand, weight = call.args
    operator = _BIASED[call.op.name]
    node = Node(
        operator=operator,
        output=names[biased],
        inputs=(_name(operand, names),),
        shape=_shape(biased),
        weight=_name(weight, names),
        bias=_name(bias, names),
        channels_read=_shape(weight)[0 if operator is Operator.TRANSPOSED_CONVOLUTION else 1],
    )
    if operator is Operator.DENSE:
        return node
    return replace(
        node,
        kernel=_extents(_shape(weight)[2:]),
        strides=_extents(call.attrs.strides),
        padding=_padding(call),
        groups=int(call.attrs.groups),
    )


def _embedding(call: relay.Call, names: _Names) -> Node:
    table, rows = call.args
    return Node(
        operator=Operator.EMBEDDING,
        output=names[call],
        inputs=(_name(rows, names),),
        shape=_shape(call),
        weight=_name(table, names),
    )


def _layer_norm(call: relay.Call, names: _Names) -> Node:
    operand, scale, shift = call.args
    return Node(
        operator=Operator.LAYER_NORM,
        output=names[call],
        inputs=(_name(operand, names),),
        shape=_shape(call),
        weight=_name(scale, names),
        bias=_name(shift, names),
        epsilon=float(call.attrs.epsilon),
    )


def _softmax(call: relay.Call, names: _Names) -> Node:
    shape = _shape(call)
    if len(shape) != _MATRIX:
        raise PeerError(
            f"nn.softmax of {shape}: the description only knows that of rows; extend network.py "
            "and every peer"
        )
    return Node(
        operator=Operator.SOFTMAX,
        output=names[call],
        inputs=(_name(call.args[0], names),),
        shape=shape,
    )


_OF_THEIR_OWN: Mapping[str, Callable[[relay.Call, _Names], Node]] = {
    "nn.layer_norm": _layer_norm,
    "nn.softmax": _softmax,
    "take": _embedding,
}


def _composite(call: relay.Call, names: _Names) -> Node:
    """Node of a pattern's match: a function whose arguments are what the pattern leaves open."""
    operator = Operator(str(call.op.attrs[_LABEL]))
    given = dict(zip(call.op.params, call.args, strict=True))
    node = Node(
        operator=operator,
        output=names[call],
        inputs=tuple(_name(argument, names) for argument in call.args),
        shape=_shape(call),
    )
    if operator is Operator.SCALE_SHIFT:
        scaled, shift = call.op.body.args
        operand, weight, bias = (_name(given[each], names) for each in (*scaled.args, shift))
        return replace(node, inputs=(operand,), weight=weight, bias=bias)
    if operator is Operator.ATTENTION:
        return _attention_node(node, call.op.body, lambda each: _name(given[each], names))
    return node


def _attention_node(node: Node, merged: relay.Call, name_of: Callable[[relay.Var], str]) -> Node:
    """Query, key and value, and the heads, found where the matched operators read them."""
    shares, value = _first_call(merged, "nn.batch_matmul").args
    query, key = _first_call(shares, "nn.batch_matmul").args
    # Each of the three: reshape, transpose, reshape of what is read.
    by_head = [split.args[0].args[0] for split in (query, key, value)]
    _, tokens, heads, _ = _shape(by_head[0])
    inputs = tuple(name_of(split.args[0]) for split in by_head)
    return replace(node, inputs=inputs, tokens=tokens, heads=heads)


def _first_call(call: relay.Call, operator: str) -> relay.Call:
    """The first call of an operator on the way along the first arguments."""
    while call.op.name != operator:
        call = call.args[0]
    return call


def _name(expr: relay.Expr, names: _Names) -> str:
    if expr not in names:
        raise PeerError(
            f"an operator reads {type(expr).__name__} {expr.checked_type}, which is no input, "
            "weight or biased convolution; extend describe.py"
        )
    return names[expr]


def _require_expected(call: relay.Call) -> None:
    for attribute, expected in _EXPECTED.get(call.op.name, {}).items():
        value = getattr(call.attrs, attribute)
        plain = tuple(map(int, value)) if isinstance(expected, tuple) else value
        if plain != expected:
            raise PeerError(
                f"{call.op.name} has {attribute} {plain}, and the description only knows "
                f"{expected}; extend network.py and every peer"
            )


def _padding(call: relay.Call) -> tuple[int, ...]:
    sides = _extents(call.attrs.padding)
    axes = len(call.args[0].checked_type.shape) - 2
    before = sides[:axes]
    if sides not in (before, before * 2):
        raise PeerError(
            f"{call.op.name} has padding {list(sides)}, which differs between opposite "
            "sides; extend network.py and every peer"
        )
    return before


def _extents(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(size) for size in sizes)


def _shape(expr: relay.Expr) -> tuple[int, ...]:
    return tuple(int(extent) for extent in expr.checked_type.shape)
