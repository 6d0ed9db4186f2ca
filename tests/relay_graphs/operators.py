"""Operators of random graphs: each takes a builder and a value, and gives one or several.

One that does not fit the value raises :class:`RefusedError`. What it is free to choose, such as
strides, it has the builder's chooser decide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relay

from tests.relay_graphs import arithmetic
from tests.relay_graphs.builder import GraphBuilder, RefusedError, Value

__all__ = ["OPERATORS", "Operator"]

Operator = Callable[[GraphBuilder, Value], Value | list[Value]]


def _need(holds: bool) -> None:
    if not holds:
        raise RefusedError


def _need_image(value: Value) -> None:
    """A float NCHW tensor with elements."""
    _need(value.is_float and len(value.shape) == 4 and value.array.size > 0)


# ---- Convolutions and products ----


def convolution(g: GraphBuilder, x: Value, groups: int = 1) -> Value:
    _need_image(x)
    channels = x.shape[1]
    outputs = channels if groups > 1 else g.chooser.choice((4, 8, 16))
    _need(channels % groups == 0 and outputs % groups == 0)
    kernel = g.chooser.choice(((1, 1), (3, 3), (1, 3), (3, 1)))
    strides = g.chooser.choice(((1, 1), (1, 1), (2, 2), (2, 1)))
    dilation = g.chooser.choice(((1, 1), (1, 1), (2, 2)))
    around = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True))
    padding = g.chooser.choice(((*around, *around), (0, 0, 0, 0), (1, 0, 2, 1)))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    _need(x.shape[2] + padding[0] + padding[2] >= spans[0])
    _need(x.shape[3] + padding[1] + padding[3] >= spans[1])
    inner = channels // groups
    scale = float(inner * kernel[0] * kernel[1]) ** -0.5
    weight = g.constant((outputs, inner, *kernel), x.dtype, scale)
    made = g.apply(
        relay.nn.conv2d(
            x.expr,
            weight.expr,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            channels=outputs,
            kernel_size=kernel,
        ),
        lambda d, w: arithmetic.convolution(d, w, strides, padding, dilation, groups),
        x,
        weight,
    )
    if g.chooser.random() < 0.5:
        made = bias_add(g, made)
    return relu(g, made) if g.chooser.random() < 0.5 else made


def grouped_convolution(g: GraphBuilder, x: Value) -> Value:
    return convolution(g, x, groups=2)


def depthwise_convolution(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    return convolution(g, x, groups=x.shape[1])


def integer_convolution(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "int8" and len(x.shape) == 4 and x.array.size > 0)
    weight = g.constant((8, x.shape[1], 1, 1), "int8")
    return g.apply(
        relay.nn.conv2d(x.expr, weight.expr, channels=8, kernel_size=(1, 1), out_dtype="int32"),
        lambda d, w: arithmetic.convolution(d, w, (1, 1), (0,) * 4, (1, 1), 1),
        x,
        weight,
        dtype="int32",
    )


def transposed_convolution(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    groups = g.chooser.choice((1, 1, 2))
    _need(x.shape[1] % groups == 0)
    outputs = g.chooser.choice((4, 8))
    kernel = g.chooser.choice(((2, 2), (3, 3), (1, 1)))
    strides = g.chooser.choice(((1, 1), (2, 2)))
    padding = tuple(min(pad, kernel[0] - 1) for pad in g.chooser.choice(((0,) * 4, (1,) * 4)))
    after = (0, 0) if strides == (1, 1) else g.chooser.choice(((0, 0), (1, 1)))
    _need(
        all(
            (n - 1) * s + kernel[0] > 2 * padding[0]
            for n, s in zip(x.shape[2:], strides, strict=True)
        )
    )
    scale = float(x.shape[1] // groups * kernel[0] * kernel[1]) ** -0.5
    weight = g.constant((x.shape[1], outputs // groups, *kernel), x.dtype, scale)
    return g.apply(
        relay.nn.conv2d_transpose(
            x.expr,
            weight.expr,
            strides=strides,
            padding=padding,
            output_padding=after,
            groups=groups,
            channels=outputs,
            kernel_size=kernel,
        ),
        lambda d, w: arithmetic.transposed_convolution(d, w, strides, padding, after, groups),
        x,
        weight,
    )


def bias_add(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float and len(x.shape) > 1)
    bias = g.constant((x.shape[1],), x.dtype, 0.5)
    ones = (1,) * (len(x.shape) - 2)
    return g.apply(
        relay.nn.bias_add(x.expr, bias.expr), lambda d, b: d + b.reshape(-1, *ones), x, bias
    )


def dense(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float)
    if len(x.shape) != 2:
        x = flatten(g, x)
    units = g.chooser.choice((4, 10))
    _need(x.shape[1] > 0)
    weight = g.constant((units, x.shape[1]), x.dtype, float(x.shape[1]) ** -0.5)
    return g.apply(relay.nn.dense(x.expr, weight.expr), lambda d, w: d @ w.T, x, weight)


def batched_product(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float and len(x.shape) == 3)
    others = [v for v in g.values if v.dtype == x.dtype and len(v.shape) == 3]
    others = [v for v in others if v.shape[0] == x.shape[0] and v.shape[2] == x.shape[2]]
    other = g.chooser.choice([x, *others])
    _need(x.shape[2] > 0)
    product = g.apply(
        relay.nn.batch_matmul(x.expr, other.expr),
        lambda a, b: np.einsum("bik,bjk->bij", a, b),
        x,
        other,
    )
    return scaled(g, product)


def attention(g: GraphBuilder, x: Value) -> Value:
    return batched_product(g, softmax(g, batched_product(g, x)))


# ---- One element at a time ----


def relu(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float)
    return g.apply(relay.nn.relu(x.expr), lambda d: np.maximum(d, 0), x, exact=True)


UNARY = (
    (relay.sigmoid, lambda d: 1 / (1 + np.exp(-d))),
    (relay.tanh, np.tanh),
    (relay.exp, np.exp),
    (relay.erf, arithmetic.erf),
    (relay.negative, np.negative),
    (relay.abs, np.abs),
    (relay.nn.leaky_relu, lambda d: np.where(d > 0, d, d * 0.01)),
    (lambda e: relay.sqrt(relay.abs(e) + relay.const(1.0)), lambda d: np.sqrt(np.abs(d) + 1)),
    (lambda e: relay.clip(e, -0.5, 0.75), lambda d: np.clip(d, -0.5, 0.75)),
    (lambda e: e * relay.nn.relu(e), lambda d: d * np.maximum(d, 0)),
)


def unary(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "float32")
    expression, function = g.chooser.choice(UNARY)
    return g.apply(expression(x.expr), function, x)


def half_unary(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "float16")
    expression, function = g.chooser.choice(UNARY[:3] + UNARY[4:7])
    return g.apply(expression(x.expr), function, x)


def scaled(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float)
    return g.apply(x.expr * relay.const(0.25, x.dtype), lambda d: d * 0.25, x)


def prelu(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    slope = g.constant((x.shape[1],), x.dtype)
    return g.apply(
        relay.nn.prelu(x.expr, slope.expr),
        lambda d, s: np.where(d > 0, d, d * s[:, None, None]),
        x,
        slope,
    )


BINARY = (
    (relay.add, np.add),
    (relay.subtract, np.subtract),
    (relay.multiply, np.multiply),
    (relay.maximum, np.maximum),
    (relay.minimum, np.minimum),
)


def binary(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype != "bool")
    other = _partner(g, x)
    expression, function = g.chooser.choice(BINARY)
    return g.apply(expression(x.expr, other.expr), function, x, other)


def divide(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float)
    other = _partner(g, x)
    one = relay.const(1.0, x.dtype)
    return g.apply(
        x.expr / (relay.abs(other.expr) + one), lambda a, b: a / (np.abs(b) + 1), x, other
    )


def _partner(g: GraphBuilder, x: Value) -> Value:
    """A value of the same type to broadcast with, or a constant."""
    partners = [v for v in g.values if v.dtype == x.dtype and _broadcast(v.shape, x.shape)]
    if partners and g.chooser.random() < 0.7:
        return g.chooser.choice(partners)
    shape = [extent if g.chooser.random() < 0.5 else 1 for extent in x.shape]
    return g.constant(shape[g.chooser.randrange(len(shape) + 1) :], x.dtype)


def _broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


# ---- Norms, softmax, reductions ----


def softmax(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float and len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    _need(x.shape[axis] > 0)
    if g.chooser.random() < 0.3:
        return g.apply(
            relay.nn.log_softmax(x.expr, axis),
            lambda d: np.log(arithmetic.softmax(d, axis)),
            x,
        )
    return g.apply(relay.nn.softmax(x.expr, axis), lambda d: arithmetic.softmax(d, axis), x)


def batch_norm(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    gamma, beta, mean, spread = (g.constant((x.shape[1],), x.dtype, 0.5) for _ in range(4))
    variance = relay.abs(spread.expr) + relay.const(0.5, x.dtype)

    def compute(d, *parameters):
        gamma, beta, mean, spread = (p[:, None, None] for p in parameters)
        return (d - mean) / np.sqrt(np.abs(spread) + 0.5 + 1e-3) * gamma + beta

    made = relay.nn.batch_norm(x.expr, gamma.expr, beta.expr, mean.expr, variance, epsilon=1e-3)
    return g.apply(made[0], compute, x, gamma, beta, mean, spread)


def layer_norm(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "float32" and len(x.shape) > 1 and x.array.size > 0)
    gamma, beta = (g.constant((x.shape[-1],), x.dtype) for _ in range(2))
    return g.apply(
        relay.nn.layer_norm(x.expr, gamma.expr, beta.expr, epsilon=1e-2),
        lambda d, s, b: arithmetic.normalized(d, (-1,), 1e-2) * s + b,
        x,
        gamma,
        beta,
    )


def instance_norm(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    _need(x.dtype == "float32")
    gamma, beta = (g.constant((x.shape[1],), x.dtype) for _ in range(2))
    return g.apply(
        relay.nn.instance_norm(x.expr, gamma.expr, beta.expr, epsilon=1e-2),
        lambda d, s, b: (
            arithmetic.normalized(d, (2, 3), 1e-2) * s[:, None, None] + b[:, None, None]
        ),
        x,
        gamma,
        beta,
    )


def group_norm(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    _need(x.dtype == "float32" and x.shape[1] % 2 == 0)
    gamma, beta = (g.constant((x.shape[1],), x.dtype) for _ in range(2))

    def compute(d, s, b):
        inner = arithmetic.normalized(d.reshape(d.shape[0], 2, -1), (2,), 1e-2)
        return inner.reshape(d.shape) * s[:, None, None] + b[:, None, None]

    made = relay.nn.group_norm(x.expr, gamma.expr, beta.expr, num_groups=2, epsilon=1e-2)
    return g.apply(made, compute, x, gamma, beta)


REDUCTIONS = (
    (relay.sum, np.sum),
    (relay.mean, np.mean),
    (relay.max, np.max),
    (relay.min, np.min),
    (relay.variance, np.var),
)


def reduction(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float and len(x.shape) > 1)
    expression, function = g.chooser.choice(REDUCTIONS)
    axes = tuple(axis for axis in range(len(x.shape)) if g.chooser.random() < 0.4) or (1,)
    _need(function is np.sum or all(x.shape[axis] > 0 for axis in axes))
    keep = g.chooser.random() < 0.5
    return g.apply(
        expression(x.expr, axes, keepdims=keep), lambda d: function(d, axis=axes, keepdims=keep), x
    )


def arg_max(g: GraphBuilder, x: Value) -> Value:
    _need(x.is_float and len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    _need(x.shape[axis] > 0)
    return g.apply(relay.argmax(x.expr, axis), lambda d: np.argmax(d, axis), x, dtype="int32")


# ---- Images ----


def pooling(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    kernel = g.chooser.choice(((2, 2), (3, 3)))
    strides = g.chooser.choice(((1, 1), (2, 2)))
    padding = g.chooser.choice(((0, 0, 0, 0), (1, 1, 1, 1)))
    ceil = g.chooser.random() < 0.3
    _need(min(x.shape[2:]) + 2 * padding[0] >= kernel[0])
    options = {"pool_size": kernel, "strides": strides, "padding": padding, "ceil_mode": ceil}
    if g.chooser.random() < 0.5:
        reduce, made = np.max, relay.nn.max_pool2d(x.expr, **options)
    else:
        reduce, made = np.mean, relay.nn.avg_pool2d(x.expr, **options)
    # With ceil, a last window may have nothing but padding in it.
    whole = all(n >= kernel[0] and (n - kernel[0]) % strides[0] == 0 for n in x.shape[2:])
    _need(not ceil or whole or padding[0] == 0)
    return g.apply(
        made,
        lambda d: arithmetic.pooling(
            d, lambda w: reduce(w, axis=-1), kernel, strides, padding, ceil=ceil
        ),
        x,
    )


def global_pooling(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    return g.apply(
        relay.nn.global_avg_pool2d(x.expr), lambda d: d.mean(axis=(2, 3), keepdims=True), x
    )


def resize(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    size = g.chooser.choice(((4, 4), (8, 8), (5, 7)))
    method, transform = g.chooser.choice(
        (
            ("nearest_neighbor", "asymmetric"),
            ("linear", "half_pixel"),
            ("linear", "align_corners"),
            ("linear", "asymmetric"),
        )
    )
    rounding = "floor" if method == "nearest_neighbor" else ""
    made = relay.image.resize2d(
        x.expr,
        size,
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=transform,
        rounding_method=rounding,
    )
    return g.apply(made, lambda d: arithmetic.resized(d, size, method, transform), x)


# ---- Shapes ----


def flatten(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 1)
    rows = x.shape[0]
    columns = int(np.prod(x.shape[1:]))
    return g.apply(
        relay.nn.batch_flatten(x.expr), lambda d: d.reshape(rows, columns), x, exact=True
    )


def reshape(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 1)
    shape = g.chooser.choice(
        (
            (int(np.prod(x.shape)),),
            (x.shape[0], int(np.prod(x.shape[1:]))),
            (x.shape[0], x.shape[1], int(np.prod(x.shape[2:]))),
            (1, *x.shape),
        )
    )
    _need(len(shape) < 5 and 0 not in shape)  # 0 stands for the extent that was there
    return g.apply(relay.reshape(x.expr, shape), lambda d: d.reshape(shape), x, exact=True)


def image(g: GraphBuilder, x: Value) -> Value:
    """Four axes again, from fewer."""
    _need(len(x.shape) in (2, 3))
    return g.apply(
        relay.expand_dims(x.expr, 2, 4 - len(x.shape)),
        lambda d: d.reshape(*d.shape[:2], *((1,) * (4 - d.ndim)), *d.shape[2:]),
        x,
        exact=True,
    )


def transpose(g: GraphBuilder, x: Value) -> Value:
    axes = list(range(len(x.shape)))
    _need(len(axes) > 1)
    g.chooser.shuffle(axes)
    return g.apply(relay.transpose(x.expr, axes), lambda d: d.transpose(axes), x, exact=True)


def concatenate(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 0)
    axis = min(g.chooser.choice((1, 1, 0)), len(x.shape) - 1)
    fitting = [
        v
        for v in g.values
        if v.dtype == x.dtype
        and len(v.shape) == len(x.shape)
        and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if i != axis)
    ]
    parts = [x, *(g.chooser.choice(fitting) for _ in range(g.chooser.randrange(1, 3)))]
    g.chooser.shuffle(parts)
    return g.apply(
        relay.concatenate([part.expr for part in parts], axis),
        lambda *arrays: np.concatenate(arrays, axis),
        *parts,
        exact=True,
    )


def split(g: GraphBuilder, x: Value) -> list[Value]:
    _need(len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    _need(x.shape[axis] > 1)
    cuts = [g.chooser.choice((x.shape[axis] // 2, 1))]
    parts = relay.split(x.expr, cuts, axis)
    made = [
        g.apply(parts[i], lambda d, i=i: np.split(d, cuts, axis)[i], x, exact=True)
        for i in range(2)
    ]
    return [part for part in made if g.chooser.random() < 0.8] or made[:1]


def strided_slice(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    extent = x.shape[axis]
    _need(extent > 1)
    begin, end, step = g.chooser.choice(
        ((0, extent, 2), (1, extent, 1), (0, extent // 2, 1), (extent - 1, 0, -1), (1, 1, 1))
    )
    made = relay.strided_slice(x.expr, [begin], [end], [step], axes=[axis])
    where = (slice(None),) * axis + (slice(begin, end, step),)
    return g.apply(made, lambda d: d[where], x, exact=True)


def take(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    extent = x.shape[axis]
    _need(extent > 0)
    rows = np.array([g.chooser.randrange(extent) for _ in range(g.chooser.choice((1, 3)))])
    made = relay.take(x.expr, relay.const(rows.astype("int32")), axis, mode="clip")
    return g.apply(made, lambda d: d.take(rows, axis), x, exact=True)


def pad(g: GraphBuilder, x: Value) -> Value:
    _need_image(x)
    widths = ((0, 0), (0, g.chooser.choice((0, 4))), (1, 0), (0, 2))
    return g.apply(relay.nn.pad(x.expr, widths, 0), lambda d: np.pad(d, widths), x, exact=True)


def repeat(g: GraphBuilder, x: Value) -> Value:
    _need(len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    if g.chooser.random() < 0.5:
        return g.apply(
            relay.repeat(x.expr, 2, axis), lambda d: np.repeat(d, 2, axis), x, exact=True
        )
    return g.apply(relay.reverse(x.expr, axis), lambda d: np.flip(d, axis), x, exact=True)


def empty(g: GraphBuilder, x: Value) -> Value:
    """No rows of something."""
    _need(len(x.shape) > 0)
    axis = g.chooser.randrange(len(x.shape))
    _need(x.shape[axis] > 0)
    made = relay.strided_slice(x.expr, [0], [0], [1], axes=[axis])
    where = (slice(None),) * axis + (slice(0, 0),)
    return g.apply(made, lambda d: d[where], x, exact=True)


# ---- Types ----


def cast(g: GraphBuilder, x: Value) -> Value:
    dtype = g.chooser.choice(("float32", "float32", "float16", "int8", "int32", "bool"))
    _need(dtype != x.dtype)
    if not x.is_float:
        kind = dtype
        return g.apply(
            relay.cast(x.expr, dtype),
            lambda d: d.astype(bool if kind == "bool" else "int64"),
            x,
            dtype=dtype,
        )
    if dtype in ("int8", "int32"):
        eight = relay.const(8.0, x.dtype)
        return g.apply(
            relay.cast(relay.floor(x.expr * eight), dtype),
            lambda d: np.floor(d * 8),
            x,
            dtype=dtype,
        )
    _need(dtype != "bool")
    return g.apply(relay.cast(x.expr, dtype), lambda d: d, x, dtype=dtype)


COMPARISONS = (
    (relay.greater, np.greater),
    (relay.less_equal, np.less_equal),
    (relay.equal, np.equal),
    (relay.not_equal, np.not_equal),
)


def comparison(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype != "bool")
    other = _partner(g, x)
    apart = np.abs(x.array - other.array)
    _need(not ((apart > 0) & (apart <= x.tolerance + other.tolerance)).any())  # may round to equal
    expression, function = g.chooser.choice(COMPARISONS)
    return g.apply(expression(x.expr, other.expr), function, x, other, dtype="bool")


def logical(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "bool")
    other = _partner(g, x)
    expression, function = g.chooser.choice(
        ((relay.logical_and, np.logical_and), (relay.logical_or, np.logical_or))
    )
    inverse = relay.logical_not(x.expr)
    return g.apply(
        expression(inverse, other.expr), lambda a, b: function(np.logical_not(a), b), x, other
    )


def where(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "bool")
    fitting = [v for v in g.values if v.dtype != "bool" and v.shape == x.shape]
    _need(bool(fitting))
    first = g.chooser.choice(fitting)
    second = g.chooser.choice([v for v in fitting if v.dtype == first.dtype])
    return g.apply(
        relay.where(x.expr, first.expr, second.expr),
        np.where,
        x,
        first,
        second,
        dtype=first.dtype,
        exact=True,
    )


def any_of(g: GraphBuilder, x: Value) -> Value:
    _need(x.dtype == "bool" and len(x.shape) > 1)
    axis = g.chooser.randrange(len(x.shape))
    expression, function = g.chooser.choice(((relay.any, np.any), (relay.all, np.all)))
    return g.apply(expression(x.expr, axis), lambda d: function(d, axis=axis), x)


OPERATORS: tuple[Operator, ...] = (
    *(convolution,) * 6,
    *(unary,) * 3,
    *(grouped_convolution,) * 2,
    *(depthwise_convolution,) * 2,
    *(integer_convolution,) * 2,
    *(transposed_convolution,) * 2,
    *(dense,) * 2,
    batched_product,
    attention,
    half_unary,
    prelu,
    binary,
    divide,
    softmax,
    batch_norm,
    layer_norm,
    instance_norm,
    group_norm,
    reduction,
    arg_max,
    pooling,
    global_pooling,
    resize,
    flatten,
    reshape,
    image,
    transpose,
    concatenate,
    split,
    strided_slice,
    take,
    pad,
    repeat,
    empty,
    cast,
    comparison,
    logical,
    where,
    any_of,
)
