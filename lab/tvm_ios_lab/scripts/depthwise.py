"""Prices of depthwise and grouped convolutions: ``python -m tvm_ios_lab.scripts.depthwise``.

Convolutions of one layout are one model. Each is priced as any operator of a network is, by TVM's
kernels and by oneDNN, on one lane and with two. Prices are divided into a bound: the greatest of
the times of all multiply-adds at peak, of as many loads of vectors as nobody can avoid, and of all
bytes that come from or go to the second cache. Prices and bounds go to
``lab/results/depthwise.json``, and a table to ``lab/results/depthwise.txt``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_ios.compile.built_model import build_model
from tvm_ios.devices.local import LocalCpu
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.operator_prices import OperatorPrices
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.peers.peak import measure_peak
from tvm_ios_lab.places import RESULTS

LANES = 2
LAYOUTS = {"NHWC": "HWOI", "NCHW": "OIHW"}
"""Layout of weights by layout of images; TVM makes blocks of channels of the latter."""
FLOATS = 16
"""Elements of a vector."""
MOST_SUMS = 28
"""Vectors of sums that registers hold at once, beside those of data and weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Depthwise or grouped convolution with as many outputs as inputs, and no bias."""

    kind: str
    channels: int
    size: int
    """Height and width of the images."""
    kernel: int
    stride: int = 1
    dilation: int = 1
    width: int = 1
    """Channels of a group."""
    batch: int = 1

    @property
    def padding(self) -> int:
        """Zeros on each side, as many as keep the size where the stride is 1."""
        return self.dilation * (self.kernel - 1) // 2

    @property
    def result(self) -> int:
        """Height and width of the result."""
        reach = self.dilation * (self.kernel - 1)
        return (self.size + 2 * self.padding - reach - 1) // self.stride + 1

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds, those with zeros around the image among them."""
        return self.batch * self.channels * (self.result * self.kernel) ** 2 * self.width

    @property
    def loads(self) -> float:
        """Vectors that have to be loaded, if a tile of one row is kept in registers.

        Data are used again along the row, and weights by all of the tile.
        """
        tile = min(self.result, MOST_SUMS)
        reach = (tile - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        data = min(reach, tile * self.kernel) * self.kernel
        weights = self.kernel**2 * self.width
        tiles = self.batch * self.result**2 / tile * self.channels / FLOATS
        return tiles * (data + weights)

    @property
    def bytes(self) -> int:
        """Bytes of data, weights and result, each once."""
        images = self.batch * self.channels * (self.size**2 + self.result**2)
        return 4 * (images + self.channels * self.width * self.kernel**2)

    def text(self) -> str:
        """Shape as one word."""
        batch = f"{self.batch}x" if self.batch > 1 else ""
        stride = f"/{self.stride}" if self.stride > 1 else ""
        dilation = f"@{self.dilation}" if self.dilation > 1 else ""
        group = f"g{self.width}" if self.width > 1 else ""
        return f"{batch}{self.channels}{group}x{self.size} k{self.kernel}{stride}{dilation}"


SHAPES: dict[str, list[dict[str, int]]] = {
    "3x3": [
        {"channels": channels, "size": size, "kernel": 3, "stride": stride}
        for channels, size in [(16, 112), (32, 112), (96, 56), (240, 28), (672, 14), (960, 7)]
        for stride in (1, 2)
    ],
    "5x5": [
        {"channels": channels, "size": size, "kernel": 5, "stride": stride}
        for channels, size in [(72, 56), (240, 28), (672, 14), (960, 7)]
        for stride in (1, 2)
    ],
    "7x7 to 11x11": [
        {"channels": 64, "size": 56, "kernel": 7},
        {"channels": 128, "size": 28, "kernel": 7},
        {"channels": 384, "size": 14, "kernel": 7},
        {"channels": 60, "size": 28, "kernel": 9},
        {"channels": 120, "size": 14, "kernel": 11},
    ],
    "ragged channels": [
        {"channels": 12, "size": 56, "kernel": 3},
        {"channels": 24, "size": 56, "kernel": 3},
        {"channels": 44, "size": 28, "kernel": 3},
        {"channels": 154, "size": 14, "kernel": 3},
        {"channels": 12, "size": 56, "kernel": 5},
        {"channels": 24, "size": 28, "kernel": 5},
        {"channels": 44, "size": 28, "kernel": 7},
        {"channels": 154, "size": 14, "kernel": 9},
    ],
    "dilated": [
        {"channels": 960, "size": 14, "kernel": 3, "dilation": 2},
        {"channels": 672, "size": 14, "kernel": 5, "dilation": 2},
        {"channels": 96, "size": 56, "kernel": 3, "dilation": 4},
    ],
    "batch 8": [
        {"channels": 96, "size": 56, "kernel": 3, "batch": 8},
        {"channels": 240, "size": 28, "kernel": 5, "batch": 8},
    ],
} | {
    f"groups of {width}": [
        {"channels": channels, "size": size, "kernel": 3, "width": width, "stride": stride}
        for channels, size in sizes
        for stride in (1, 2)
    ]
    for width, sizes in {
        4: [(128, 56)],
        8: [(256, 28), (80, 56)],
        16: [(128, 56), (320, 28)],
        24: [(168, 28)],
        32: [(128, 28), (512, 14)],
    }.items()
}
"""Convolutions to price, by kind; strided ones are kinds of their own."""


def shapes() -> Iterator[Shape]:
    """Convolutions to price."""
    for kind, fields in SHAPES.items():
        for each in fields:
            suffix = " strided" if each.get("stride", 1) > 1 else ""
            yield Shape(kind=kind + suffix, **each)


def model(shapes: Sequence[Shape], layout: str) -> tvm.IRModule:
    """Convolutions beside each other, each of an input of its own, with bias and ReLU."""
    results = [_convolution(shape, layout, f"x{number}") for number, shape in enumerate(shapes)]
    body = relay.Tuple(results)
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))


def _convolution(shape: Shape, layout: str, name: str) -> relay.Expr:
    groups = shape.channels // shape.width
    extents = {"N": shape.batch, "C": shape.channels, "H": shape.size, "W": shape.size}
    kernel_layout = LAYOUTS[layout]
    if groups < shape.channels and layout == "NHWC":
        kernel_layout = "HWIO"
    weights = {"O": shape.channels, "I": shape.width, "H": shape.kernel, "W": shape.kernel}
    convolved = relay.nn.conv2d(
        relay.var(name, shape=[extents[axis] for axis in layout]),
        relay.const(_random([weights[axis] for axis in kernel_layout])),
        strides=shape.stride,
        padding=shape.padding,
        dilation=shape.dilation,
        groups=groups,
        channels=shape.channels,
        kernel_size=(shape.kernel, shape.kernel),
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    bias = relay.const(_random([shape.channels]))
    return relay.nn.relu(relay.nn.bias_add(convolved, bias, axis=layout.index("C")))


def _random(extents: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(extents, "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Rates of one core, from which follows how long a convolution takes at least."""

    gflops: float
    """Multiply-adds in registers, each counted as two operations."""
    loads_a_cycle: int = 1
    """Vectors from the first cache; as many multiply-adds does this processor start."""
    bytes_a_cycle: int = 32
    """Bytes between the first cache and the second."""

    def ns(self, shape: Shape) -> dict[str, float]:
        """Nanoseconds on one core by what bounds them."""
        cycles_a_ns = self.gflops / (2 * FLOATS * self.loads_a_cycle)
        return {
            "multiply-adds": 2 * shape.multiply_adds / self.gflops,
            "loads": shape.loads / self.loads_a_cycle / cycles_a_ns,
            "bytes": shape.bytes / self.bytes_a_cycle / cycles_a_ns,
        }


def priced(shapes: Sequence[Shape], layout: str) -> list[dict[str, tuple[int, int]]]:
    """Nanoseconds of each convolution by each maker: on one lane, and with help."""
    device = LocalCpu()
    built = build_model(model(shapes, layout), None, device.target)
    built = replace(built, libraries=(OnednnLibrary(),))
    with device.open() as session, RelayStageRunner(built, lanes=LANES, session=session) as runner:
        prices = measure_operators(MeasuredKernels(runner))
    places = [i for i, each in enumerate(prices.graph.operators) if "conv2d" in each.kind]
    if len(places) != len(shapes):
        raise ValueError(f"{len(places)} convolutions were found of {len(shapes)}")
    return [_makers(prices, place) for place in places]


def _makers(prices: OperatorPrices, place: int) -> dict[str, tuple[int, int]]:
    return {
        maker: (each[place].alone_ns, each[place].helped_ns)
        for maker, each in prices.by_maker.items()
        if place in each
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Lines of microseconds by maker, each with the share of the bound that it reaches."""
    columns = [f"{maker} {layout}" for layout in LAYOUTS for maker in ("tvm", "onednn")]
    heads = "".join(f"{column + f' {lanes}':>21}" for column in columns for lanes in (1, 2))
    lines = [f"{'kind':16} {'shape':18} {'bound':>8}{heads}"]
    for row in rows:
        cells = "".join(_cell(row, column, lane) for column in columns for lane in range(LANES))
        lines.append(f"{row['kind']:16} {row['shape']:18} {row['bound_ns'] / 1000:8.1f}{cells}")
    lines += ["", "Share of the bound that is reached, median by kind"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        cells = "".join(
            _median([_share(row, column, lane) for row in own])
            for column in columns
            for lane in range(LANES)
        )
        lines.append(f"{kind:16} {'':18} {'':8}{cells}")
    return "\n".join(lines) + "\n"


def _share(row: dict[str, Any], column: str, lane: int) -> float | None:
    ns = row["ns"].get(column)
    return None if ns is None else row["bound_ns"] / (lane + 1) / ns[lane]


def _cell(row: dict[str, Any], column: str, lane: int) -> str:
    share = _share(row, column, lane)
    return f"{'-':>21}" if share is None else f"{row['ns'][column][lane] / 1000:15.1f} {share:5.2f}"


def _median(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{statistics.median(known):21.2f}" if known else f"{'-':>21}"


def main() -> None:
    """Price all convolutions; write the table and the prices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", help="kinds of convolutions (all)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the files")
    options = parser.parse_args()
    chosen = [each for each in shapes() if options.kinds is None or each.kind in options.kinds]
    bound = Bound(gflops=min(measure_peak().of_each_core))
    prices = {layout: priced(chosen, layout) for layout in LAYOUTS}
    rows = []
    for number, shape in enumerate(chosen):
        bounds = bound.ns(shape)
        ns = {
            f"{maker} {layout}": times
            for layout, found in prices.items()
            for maker, times in found[number].items()
        }
        shown = {"kind": shape.kind, "shape": shape.text(), **asdict(shape)}
        rows.append(shown | {"bounds_ns": bounds, "bound_ns": max(bounds.values()), "ns": ns})
    text = table(rows)
    (options.output / "depthwise.txt").write_text(text)
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.depthwise")).origin()
    record = origin | {"lanes": LANES, "rates": asdict(bound), "convolutions": rows}
    (options.output / "depthwise.json").write_text(json.dumps(record, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
