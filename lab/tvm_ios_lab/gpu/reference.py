"""Reference outputs of a network: numpy in float64, from its description, without TVM.

A batch repeats a few different images. Their number is odd, so that images mixed up by a power of
two show, and each is computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.network import Network, Node, Operator

__all__ = ["compute", "outweighing_images", "repeated"]

_DISTINCT = 5
_LARGEST_EXPONENT = 20
_SEED = 0

Doubles = NDArray[np.float64]


def compute(
    network: Network, weights: Mapping[str, NDArray[np.float32]], images: NDArray[np.float32]
) -> Doubles:
    """The output for any number of images.

    Parameters
    ----------
    network
        Network to compute.
    weights
        Weights by the names of nodes.
    images
        Images in NCHW; their number need not be the network's.
    """
    values: dict[str, Doubles] = {network.input: images.astype(np.float64)}
    readers = Counter(name for node in network.nodes for name in node.inputs)
    readers[network.output] += 1
    for node in network.nodes:
        values[node.output] = _node(node, [values[name] for name in node.inputs], weights)
        readers.subtract(node.inputs)
        for name in set(node.inputs):
            if not readers[name]:
                del values[name]
    return values[network.output]


def outweighing_images(
    run: Callable[[NDArray[np.float32]], Doubles], network: Network
) -> NDArray[np.float32]:
    """Different images that make up at least half of the output's largest value.

    Random weights shrink the signal layer by layer until only biases are left, and every wrong
    network would look right.
    """
    count = min(_DISTINCT, network.batch_size)
    shape = (count, *network.input_shape[1:])
    noise = np.random.default_rng(_SEED).standard_normal(shape, dtype=np.float32)
    first = noise[:1]
    biases_alone = run(np.zeros_like(first))
    for exponent in range(_LARGEST_EXPONENT + 1):
        scale = np.float32(10**exponent)
        output = run(first * scale)
        if np.max(np.abs(output - biases_alone)) >= 0.5 * np.max(np.abs(output)):
            return noise * scale
    raise PeerError(
        f"{network.name}: inputs up to 1e{_LARGEST_EXPONENT} do not show in the output, so nothing "
        "can be proved of it; look at the weights"
    )


def repeated(images: NDArray[np.float32] | Doubles, batch_size: int) -> NDArray[np.floating]:
    """A batch of images, or of their outputs, each in turn."""
    return images[np.arange(batch_size) % len(images)]


def _node(
    node: Node, operands: list[Doubles], weights: Mapping[str, NDArray[np.float32]]
) -> Doubles:
    first = operands[0]
    match node.operator:
        case Operator.CONVOLUTION:
            weight = weights[node.weight].astype(np.float64)
            bias = weights[node.bias].astype(np.float64)
            return _convolution(node, first, weight) + bias.reshape(1, -1, 1, 1)
        case Operator.RELU:
            return np.maximum(first, 0)
        case Operator.ADD:
            return operands[0] + operands[1]
        case Operator.CONCATENATE:
            return np.concatenate(operands, axis=1)
        case Operator.MAX_POOL:
            return np.asarray(np.max(_windows(node, first, fill=-np.inf), axis=(4, 5)))
        case Operator.AVERAGE_POOL:
            return np.asarray(np.mean(_windows(node, first), axis=(4, 5)))
        case Operator.GLOBAL_AVERAGE_POOL:
            return np.asarray(np.mean(first, axis=(2, 3), keepdims=True))
        case operator:
            raise PeerError(
                f"operator {operator.value} has no reference on a GPU; add it to reference.py"
            )


def _convolution(node: Node, data: Doubles, weight: Doubles) -> Doubles:
    windows = _windows(node, data)
    if node.groups == 1:
        return np.moveaxis(np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))), 3, 1)
    if node.channels_read == 1 and len(weight) == data.shape[1]:
        return np.asarray(np.einsum("nchwij,cij->nchw", windows, weight[:, 0]))
    parts = zip(np.split(windows, node.groups, axis=1), np.split(weight, node.groups), strict=True)
    each = [np.tensordot(window, part, ((1, 4, 5), (1, 2, 3))) for window, part in parts]
    return np.moveaxis(np.concatenate(each, axis=3), 3, 1)


def _windows(node: Node, data: Doubles, fill: float = 0.0) -> Doubles:
    """Views of what each output element reads: images, channels, rows, columns, window."""
    (rows, columns), (down, right) = node.padding, node.strides
    pads = ((0, 0), (0, 0), (rows, rows), (columns, columns))
    padded = np.pad(data, pads, constant_values=fill) if rows or columns else data
    return sliding_window_view(padded, node.kernel, axis=(2, 3))[:, :, ::down, ::right]
