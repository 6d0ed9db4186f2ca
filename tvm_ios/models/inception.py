"""Inception V3 (Szegedy et al., CVPR 2016), as the IOS paper benchmarks it.

Batch normalisation is folded into the convolutions, and the network ends at the global average
pooling. 119 schedule units in 13 blocks; every convolution has a bias and a rectifier.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["inception_v3"]


def inception_v3(*, batch_size: int = 1, image_size: int = 299, seed: int = 0) -> Network:
    """Inception V3 without the classifier, for images of at least 75 pixels.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 2048, 1, 1)``.
    """
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=image_size, width=image_size, seed=seed
    )
    value = _front(net)
    for number, pool_channels in enumerate((32, 64, 64), start=1):
        value = _Block(net, f"a{number}").a(value, pool_channels)
    value = _Block(net, "b").b(value)
    for number, middle in enumerate((128, 160, 160, 192), start=1):
        value = _Block(net, f"c{number}").c(value, middle)
    value = _Block(net, "d").d(value)
    for number in (1, 2):
        value = _Block(net, f"e{number}").e(value)
    return net.finish(net.global_average("pool", value))


def _front(net: NetworkBuilder) -> Tensor:
    value = net.convolution("conv1", net.input, 32, kernel=(3, 3), stride=2)
    value = net.convolution("conv2", value, 32, kernel=(3, 3))
    value = net.convolution("conv3", value, 64, kernel=(3, 3), padding=(1, 1))
    value = net.pool("pool1", value, Pooling.MAX, stride=2)
    value = net.convolution("conv4", value, 80)
    value = net.convolution("conv5", value, 192, kernel=(3, 3))
    return net.pool("pool2", value, Pooling.MAX, stride=2)


@dataclass(frozen=True, slots=True)
class _Block:
    """Builder of the units of one Inception block; letters as in the IOS paper."""

    net: NetworkBuilder
    name: str

    def a(self, value: Tensor, pool_channels: int) -> Tensor:
        """Block of figure 5 of the paper, with a 5x5 as second convolution of the narrow branch."""
        return self._concat(
            self._branch("b0", value, _Conv(64, (1, 1))),
            self._branch("b1", value, _Conv(48, (1, 1)), _Conv(64, (5, 5))),
            self._branch("b2", value, _Conv(64, (1, 1)), _Conv(96, (3, 3)), _Conv(96, (3, 3))),
            self._pooled("b3", value, pool_channels),
        )

    def b(self, value: Tensor) -> Tensor:
        """Block that halves height and width, and has 768 output channels."""
        return self._concat(
            self._branch("b0", value, _Conv(384, (3, 3), halve=True)),
            self._branch(
                "b1", value, _Conv(64, (1, 1)), _Conv(96, (3, 3)), _Conv(96, (3, 3), halve=True)
            ),
            self.net.pool(f"{self.name}.b2", value, Pooling.MAX, stride=2),
        )

    def c(self, value: Tensor, middle: int) -> Tensor:
        """Block of figure 6, with 7x7 convolutions factorised into 1x7 and 7x1."""
        return self._concat(
            self._branch("b0", value, _Conv(192, (1, 1))),
            self._branch(
                "b1", value, _Conv(middle, (1, 1)), _Conv(middle, (1, 7)), _Conv(192, (7, 1))
            ),
            self._branch(
                "b2",
                value,
                _Conv(middle, (1, 1)),
                _Conv(middle, (7, 1)),
                _Conv(middle, (1, 7)),
                _Conv(middle, (7, 1)),
                _Conv(192, (1, 7)),
            ),
            self._pooled("b3", value, 192),
        )

    def d(self, value: Tensor) -> Tensor:
        """Block that halves height and width, and has 1280 output channels."""
        return self._concat(
            self._branch("b0", value, _Conv(192, (1, 1)), _Conv(320, (3, 3), halve=True)),
            self._branch(
                "b1",
                value,
                _Conv(192, (1, 1)),
                _Conv(192, (1, 7)),
                _Conv(192, (7, 1)),
                _Conv(192, (3, 3), halve=True),
            ),
            self.net.pool(f"{self.name}.b2", value, Pooling.MAX, stride=2),
        )

    def e(self, value: Tensor) -> Tensor:
        """Block of figure 7, with two branches that fork once more, so six tensors are joined."""
        fork = self._branch("b1", value, _Conv(384, (1, 1)))
        deep_fork = self._branch("b2", value, _Conv(448, (1, 1)), _Conv(384, (3, 3)))
        return self._concat(
            self._branch("b0", value, _Conv(320, (1, 1))),
            self._branch("b1.row", fork, _Conv(384, (1, 3))),
            self._branch("b1.column", fork, _Conv(384, (3, 1))),
            self._branch("b2.row", deep_fork, _Conv(384, (1, 3))),
            self._branch("b2.column", deep_fork, _Conv(384, (3, 1))),
            self._pooled("b3", value, 192),
        )

    def _branch(self, label: str, value: Tensor, *convolutions: _Conv) -> Tensor:
        for number, conv in enumerate(convolutions, start=1):
            value = self.net.convolution(
                f"{self.name}.{label}.conv{number}",
                value,
                conv.out_channels,
                kernel=conv.kernel,
                stride=2 if conv.halve else 1,
                padding=conv.padding,
            )
        return value

    def _pooled(self, label: str, value: Tensor, out_channels: int) -> Tensor:
        pooled = self.net.pool(f"{self.name}.{label}.pool", value, Pooling.AVERAGE, padding=1)
        return self._branch(label, pooled, _Conv(out_channels, (1, 1)))

    def _concat(self, *branches: Tensor) -> Tensor:
        return self.net.combine(f"{self.name}.concat", [[branch] for branch in branches])


@dataclass(frozen=True, slots=True)
class _Conv:
    out_channels: int
    kernel: tuple[int, int]
    halve: bool = False
    """True for stride 2 without padding; False keeps the size."""

    @property
    def padding(self) -> tuple[int, int]:
        if self.halve:
            return (0, 0)
        return (self.kernel[0] // 2, self.kernel[1] // 2)
