"""Attention in the ways that networks spell it, and NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests import relay_modules
from tvm_ios.kernels.vector_math import with_arithmetic
from tvm_ios.relay.attention.kernel import attention_kernel

TARGETS = tuple(
    tvm.target.Target(text)
    for text in ("llvm -mcpu=skylake-avx512 -opt-level=1", "llvm -mcpu=core-avx2 -opt-level=1")
)


def matrices(rows, columns, name):
    """Matrix of all heads side by side, as a product makes it."""
    return relay.var(name, shape=(rows, columns))


def by_head(rows, sequences, heads, axes=(0, 2, 1, 3)):
    """Matrix of each head of each sequence; axes 0, 2, 3 and 1 make it transposed."""
    count, columns = (int(extent) for extent in relay_shape(rows))
    shape = (sequences, count // sequences, heads, columns // heads)
    turned = relay.transpose(relay.reshape(rows, shape), axes)
    return relay.reshape(turned, (-3, -2))


def relay_shape(expression):
    """Extents of a tensor."""
    return relay.transform.InferTypeLocal(expression).shape


def product(left, right):
    """Product of two matrices of each head, as TVM's own products are in a fused function."""
    return relay.einsum(relay.Tuple([left, right]), "bik,bjk->bij")


def joined(result, sequences, heads):
    """Results of all heads side by side."""
    _, rows, width = relay_shape(result)
    turned = relay.transpose(relay.reshape(result, (sequences, heads, rows, width)), (0, 2, 1, 3))
    return relay.reshape(turned, (sequences * int(rows), heads * int(width)))


def typed(result):
    """Typed function of an expression of its free variables."""
    return relay_modules.typed(result)["main"]


def run(function, arrays, target=TARGETS[0]):
    """Result of the kernel of a function."""
    code = with_arithmetic(attention_kernel(function, target))
    with target:
        named = tvm.IRModule({"kernel": code.with_attr("global_symbol", "kernel")})
        library = tvm.build(named, target)
    result = tvm.nd.empty(tuple(map(int, function.ret_type.shape)))
    library["kernel"](*map(tvm.nd.array, arrays), result)
    return result.numpy()


def heads_of(matrix, sequences, heads):
    """Matrix of each head, (sequences, heads, rows, columns)."""
    rows, columns = matrix.shape
    shape = (sequences, rows // sequences, heads, columns // heads)
    return matrix.astype("float64").reshape(shape).transpose(0, 2, 1, 3)


def attended(query, key, value, scale=1.0, bias=0.0):
    """Attention of the last two axes."""
    scores = query @ np.swapaxes(key, -1, -2) * scale + bias
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    result = shares / shares.sum(-1, keepdims=True) @ value
    sequences, heads, rows, width = result.shape
    return result.transpose(0, 2, 1, 3).reshape(sequences * rows, heads * width)
