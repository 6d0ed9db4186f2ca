"""RandWire: randomly wired networks (Xie et al., ICCV 2019), sized as in the IOS paper.

The edge lists of the published IOS came from a generator without a seed. Here wirings are generated
with one, so depth, width and sums differ from the published network, while sizes, node and edge
counts do not. The published edges as ``wirings`` give exactly that network (120 schedule units,
60.668 M parameters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Tensor
from tvm_ios.models.weights import Network
from tvm_ios.models.wiring import Wiring, watts_strogatz

__all__ = ["randwire", "randwire_small"]

_LARGE_NODES = (16, 32, 32, 32)


def randwire(
    *,
    batch_size: int = 1,
    image_size: int = 224,
    channels: int = 154,
    wirings: Sequence[Wiring] | None = None,
    seed: int = 0,
) -> Network:
    """The "large" RandWire of the IOS paper: four random stages of 16, 32, 32 and 32 nodes.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1280, 1, 1)``.

    Parameters
    ----------
    channels
        Channels of the first random stage, an even number; each later stage has twice as many.
    wirings
        Edges of the random stages; None generates WS(4, 0.75) graphs from ``seed``.
    """
    if channels < 2 or channels % 2:
        raise OptionError(
            f"randwire: channels is {channels}, but the first layer has half of them; "
            "use an even number"
        )
    if wirings is None:
        wirings = [
            watts_strogatz(num_nodes, seed=seed + stage)
            for stage, num_nodes in enumerate(_LARGE_NODES)
        ]
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=image_size, width=image_size, seed=seed
    )
    value = _stem(net, channels // 2)
    for index, wiring in enumerate(wirings):
        stage = _Stage(name=f"stage{index + 1}", channels=channels << index, wiring=wiring)
        value = _random_stage(net, value, stage)
    value = net.relu("relu", value)
    value = net.convolution("conv2", value, 1280, activation=Activation.NONE)
    return net.finish(net.global_average("pool", value))


def randwire_small(
    *,
    batch_size: int = 1,
    channels: int = 64,
    size: int = 14,
    num_nodes: int = 32,
    wiring: Wiring | None = None,
    seed: int = 0,
) -> Network:
    """Network with one random stage of small operators, where scheduling pays most.

    ``main`` maps ``(batch_size, 3, 4 * size, 4 * size)`` to ``(batch_size, channels, 1, 1)``.

    Parameters
    ----------
    channels
        Channels of every node, an even number.
    size
        Height and width of every node; the image is four times as large.
    wiring
        Edges of the stage; None generates a WS(4, 0.75) graph of ``num_nodes`` from ``seed``.
    """
    if channels < 2 or channels % 2:
        raise OptionError(
            f"randwire_small: channels is {channels}, but the first layer has half of them; "
            "use an even number"
        )
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=4 * size, width=4 * size, seed=seed
    )
    stage = _Stage(
        name="stage1",
        channels=channels,
        wiring=wiring or watts_strogatz(num_nodes, seed=seed),
    )
    value = _random_stage(net, _stem(net, channels // 2), stage)
    return net.finish(net.global_average("pool", net.relu("relu", value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    name: str
    channels: int
    wiring: Wiring


def _stem(net: NetworkBuilder, channels: int) -> Tensor:
    return net.convolution(
        "conv1",
        net.input,
        channels,
        kernel=(3, 3),
        stride=2,
        padding=(1, 1),
        activation=Activation.NONE,
    )


def _random_stage(net: NetworkBuilder, value: Tensor, stage: _Stage) -> Tensor:
    """Output of a stage: nodes sum their inputs; sources read the stage's input and halve it."""
    nodes: list[Tensor] = []
    for node in range(stage.wiring.num_nodes):
        read = [nodes[index] for index in stage.wiring.predecessors(node)]
        nodes.append(
            net.relu_separable_convolution(
                f"{stage.name}.node{node}",
                read or [value],
                stage.channels,
                stride=1 if read else 2,
            )
        )
    return net.combine(f"{stage.name}.sum", [[nodes[sink] for sink in stage.wiring.sinks]])
