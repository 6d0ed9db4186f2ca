"""NASNet-A (Zoph et al., CVPR 2018), with the cells of the published IOS benchmark.

Two deliberate differences to Zoph et al., kept so that schedules compare with the IOS paper's:

- A normal cell concatenates five sums; the original also concatenates the cell's previous input.
  A normal cell of F filters thus has 5F channels and the last tensor 3360, not 4032.
- The second stem cell sums its two strided paths, where the original concatenates them.

Two published habits are kept as well: in the first stem cell the averaged sum joins ``sum0``, in
all other reductions ``sum1``; and the first cell after a reduction reads, as its previous tensor,
what the reduction read as its own. 374 schedule units in the large network.

A normal cell adds two equal poolings, ``f(x) + f(x)``. Relay's SimplifyExpr makes that ``2 * f(x)``
but copies the graph below it, once more in every cell (TVM 0.17; with unbound weights the build
fails). tvm-ios guards against it; with plain ``relay.build`` use
``PassContext(opt_level=3, disabled_pass=["SimplifyExpr"])``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["nasnet_large", "nasnet_small"]


def nasnet_large(
    *,
    batch_size: int = 1,
    image_size: int = 331,
    stem_channels: int = 96,
    filters: int = 168,
    normal_cells: int = 5,
    seed: int = 0,
) -> Network:
    """NASNet-A Large, "6@4032", without the classifier.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to
    ``(batch_size, 20 * filters, 1, 1)``.

    Parameters
    ----------
    filters
        Filters of the first group of cells, a multiple of 4; they double in each of three groups.
    normal_cells
        Normal cells in each group, after its first cell.
    """
    if filters < 4 or filters % 4 or normal_cells < 1:
        raise OptionError(
            f"nasnet_large: {normal_cells} normal cells of {filters} filters are not possible; use "
            "at least 1 cell and a multiple of 4 filters, the stem has a quarter of them"
        )
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=image_size, width=image_size, seed=seed
    )
    first = net.convolution(
        "conv0", net.input, stem_channels, kernel=(3, 3), stride=2, activation=Activation.NONE
    )
    previous = _Cell(net, "stem0").first_stem(first, filters // 4)
    current = _Cell(net, "stem1").second_stem(previous, first, filters // 2)
    for group in range(3):
        name, width, skipped = f"group{group + 1}", filters << group, previous
        if group:
            reduced = _Cell(net, f"{name}.reduction").reduction(current, previous, width)
            previous, current = current, reduced
        joined = _Cell(net, f"{name}.first").first(current, skipped, width)
        previous, current = current, joined
        for number in range(1, normal_cells + 1):
            output = _Cell(net, f"{name}.normal{number}").normal(current, previous, width)
            previous, current = current, output
    return net.finish(net.global_average("pool", net.relu("relu", current)))


def nasnet_small(
    *, batch_size: int = 1, filters: int = 24, size: int = 14, num_cells: int = 4, seed: int = 0
) -> Network:
    """A stem convolution and normal cells: many small operators, where scheduling pays.

    ``main`` maps ``(batch_size, 3, 2 * size, 2 * size)`` to ``(batch_size, 5 * filters, 1, 1)``.

    Parameters
    ----------
    filters
        Filters of every cell (24 at size 14 is the smallest of the benchmarks, 44 at 28 the next).
    size
        Height and width inside the cells; the image is twice as large.
    """
    if filters < 1 or num_cells < 1:
        raise OptionError(
            f"nasnet_small: {num_cells} cells of {filters} filters make no network; "
            "use at least 1 of each"
        )
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=2 * size, width=2 * size, seed=seed
    )
    current = net.convolution(
        "conv0",
        net.input,
        filters,
        kernel=(3, 3),
        stride=2,
        padding=(1, 1),
        activation=Activation.NONE,
    )
    previous = current
    for number in range(1, num_cells + 1):
        output = _Cell(net, f"cell{number}").normal(current, previous, filters)
        previous, current = current, output
    return net.finish(net.global_average("pool", net.relu("relu", current)))


@dataclass(frozen=True, slots=True)
class _Cell:
    """Builder of the units of one cell, named after it."""

    net: NetworkBuilder
    name: str

    def normal(self, current: Tensor, previous: Tensor, filters: int) -> Tensor:
        """Cell of five sums, at the size of both inputs."""
        left = self._relu_conv("left", previous, filters)
        right = self._relu_conv("right", current, filters)
        return self._combine(
            "concat",
            [self._separable("sep5_right", right, 5), self._separable("sep3_left0", left, 3)],
            [self._separable("sep5_left", left, 5), self._separable("sep3_left1", left, 3)],
            [self._average("avg_right", right), left],
            [self._average("avg_left0", left), self._average("avg_left1", left)],
            [self._separable("sep3_right", right, 3), right],
        )

    def first(self, current: Tensor, previous: Tensor, filters: int) -> Tensor:
        """Cell of five sums and the previous input, which is twice as large and is halved here."""
        halves = [
            self._relu_conv(f"left{half}", previous, filters // 2, stride=2) for half in (0, 1)
        ]
        left = self._combine("left", *([half] for half in halves))
        right = self._relu_conv("right", current, filters)
        return self._combine(
            "concat",
            [left],
            [self._separable("sep5_right", right, 5), self._separable("sep3_right0", right, 3)],
            [self._separable("sep5_left", left, 5), self._separable("sep3_left", left, 3)],
            [self._average("avg_right", right), left],
            [self._average("avg_left0", left), self._average("avg_left1", left)],
            [self._separable("sep3_right1", right, 3), right],
        )

    def reduction(self, current: Tensor, previous: Tensor, filters: int) -> Tensor:
        """Cell of four sums at half the size of both inputs."""
        left = self._relu_conv("left", previous, filters)
        right = self._relu_conv("right", current, filters)
        return self._reduce(right, left, filters, wide_middle=left.channels, tail=1)

    def first_stem(self, image: Tensor, filters: int) -> Tensor:
        """Reduction whose wide branches read the stem convolution directly."""
        left = self._relu_conv("left", image, filters)
        return self._reduce(left, image, filters, wide_middle=filters, tail=0)

    def second_stem(self, current: Tensor, previous: Tensor, filters: int) -> Tensor:
        """Reduction whose wide branches read the halved stem convolution."""
        left = self._relu_conv("left", current, filters)
        halves = [
            self._relu_conv(f"right{half}", previous, filters // 2, stride=2) for half in (0, 1)
        ]
        right = self._combine("right", halves)
        return self._reduce(left, right, filters, wide_middle=right.channels, tail=1)

    def _reduce(
        self, narrow: Tensor, wide: Tensor, filters: int, wide_middle: int, tail: int
    ) -> Tensor:
        """End of every reduction; ``tail`` picks the sum that joins the averaged one."""

        def halved(label: str, kernel: int) -> Tensor:
            return self._separable(label, wide, kernel, filters, middle=wide_middle, stride=2)

        first = self._combine(
            "sum0",
            [self._separable("sep5_narrow", narrow, 5, filters, stride=2), halved("sep7_wide0", 7)],
        )
        second = self._combine("sum1", [self._halving_max("max0", narrow), halved("sep7_wide1", 7)])
        average = self.net.pool(
            f"{self.name}.avg_narrow", narrow, Pooling.AVERAGE, stride=2, padding=1
        )
        return self._combine(
            "concat",
            [second],
            [average, halved("sep5_wide", 5)],
            [self._average("avg_sum0", first), (first, second)[tail]],
            [self._separable("sep3_sum0", first, 3), self._halving_max("max1", narrow)],
        )

    def _combine(self, label: str, *terms: list[Tensor]) -> Tensor:
        return self.net.combine(f"{self.name}.{label}", terms)

    def _relu_conv(self, label: str, operand: Tensor, filters: int, *, stride: int = 1) -> Tensor:
        return self.net.relu_convolution(f"{self.name}.{label}", operand, filters, stride=stride)

    def _average(self, label: str, operand: Tensor) -> Tensor:
        return self.net.pool(f"{self.name}.{label}", operand, Pooling.AVERAGE, padding=1)

    def _halving_max(self, label: str, operand: Tensor) -> Tensor:
        return self.net.pool(f"{self.name}.{label}", operand, Pooling.MAX, stride=2, padding=1)

    def _separable(
        self,
        label: str,
        operand: Tensor,
        kernel: int,
        filters: int | None = None,
        *,
        middle: int | None = None,
        stride: int = 1,
    ) -> Tensor:
        """Two separable convolutions of one kernel size; the first one strides."""
        inner = self.net.relu_separable_convolution(
            f"{self.name}.{label}.0",
            [operand],
            middle or operand.channels,
            kernel=kernel,
            stride=stride,
        )
        return self.net.relu_separable_convolution(
            f"{self.name}.{label}.1", [inner], filters or operand.channels, kernel=kernel
        )
