"""Rates of operators that only move data, beside memcpy: ``python -m tvm_ios_lab.scripts.copies``.

Each operator is a network of its own, compiled in its order, once in a size that fits the second
cache and once in one that does not, on one lane and on two. It takes turns with a memcpy of as many
bytes: those of the result are written, and as many are read, or all inputs where these are less.
Half of the sum is copied by memcpy, in equal parts on as many threads. The races go to
``lab/results/copies.json``, a table of them to ``lab/results/copies.txt``; arguments choose
operators by parts of their names, and are only printed.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

import tvm_ios
from tvm_ios import CompareOptions
from tvm_ios.measure.compare import Comparison, compare
from tvm_ios.support.c_compiler import NativeSource
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS
from tvm_ios_lab.scripts.one_operator import Compute, OneOperator

MEMCPY = NativeSource(Path(__file__).with_suffix(".c"))
LANES = (1, 2)
RACE = CompareOptions(rounds=12, min_repeat_ms=1)
WANTED = 0.6
"""Part of memcpy's rate from which on nothing is left to be mended."""

Shape = tuple[int, ...]


def joined(axis: int) -> Compute:
    """Concatenation of all inputs."""
    return lambda *pieces: relay.concatenate(pieces, axis)


def parts(places: int | list[int], axis: int) -> Compute:
    """Split whose parts are all results."""
    return lambda x: relay.split(x, places, axis).astuple()


def cut(begin: Shape, end: Shape, axes: Shape, stride: int = 1) -> Compute:
    """Slice on some axes."""
    return lambda x: relay.strided_slice(x, begin, end, [stride] * len(axes), axes)


def padded(*widths: int) -> Compute:
    """Zeros on both sides of each axis."""
    return lambda x: relay.nn.pad(x, [(width, width) for width in widths])


def turned(*axes: int) -> Compute:
    """Transpose with these axes of the input in turn."""
    return lambda x: relay.transpose(x, axes)


def layout(old: str, new: str) -> Compute:
    """Layout transform from one layout of TVM to another."""
    return lambda x: relay.layout_transform(x, old, new)


def doubled(layout: str) -> Compute:
    """Image of twice the height and width, by nearest elements."""
    return lambda x: relay.nn.upsampling(x, 2, 2, layout)


def rows(count: int, axis: int, among: int) -> Compute:
    """Rows gathered in some order, as of an embedding or a permutation."""
    order = np.random.default_rng(0).integers(0, among, count, "int32")
    return lambda x: relay.take(x, relay.const(order), axis)


def refolded(before: list[int], axes: Shape, after: list[int]) -> Compute:
    """Transpose between two reshapes."""
    return lambda x: relay.reshape(relay.transpose(relay.reshape(x, before), axes), after)


def rolled(shift: int, *axes: int) -> Compute:
    """Rotation along some axes, as networks write it: a concatenation of two slices each."""

    def compute(x: relay.Expr) -> relay.Expr:
        for axis in axes:
            first, second = relay.split(x, [shift], axis)
            x = relay.concatenate([second, first], axis)
        return x

    return compute


def images(
    compute: Compute, *shapes: Shape, small: int = 28, large: int = 124
) -> tuple[OneOperator, OneOperator]:
    """Operator on small and on large images; 0 stands for height and width."""
    first, second = (
        OneOperator(compute, [tuple(x or side for x in each) for each in shapes])
        for side in (small, large)
    )
    return first, second


def both(
    compute: Compute, small: Sequence[Shape], large: Sequence[Shape]
) -> tuple[OneOperator, OneOperator]:
    """Operator on small and on large tensors."""
    return OneOperator(compute, small), OneOperator(compute, large)


CASES: dict[str, tuple[OneOperator, OneOperator]] = {
    "concat NCHW, 24+44": images(joined(1), (1, 24, 0, 0), (1, 44, 0, 0)),
    "concat NCHW, 4x16, batch 2": images(joined(1), *[(2, 16, 0, 0)] * 4, small=20, large=90),
    "concat NHWC, 24+44": images(joined(3), (1, 0, 0, 24), (1, 0, 0, 44)),
    "concat NHWC, 4x16": images(joined(3), *[(1, 0, 0, 16)] * 4),
    "concat NHWC, 116+116": images(joined(3), *[(1, 0, 0, 116)] * 2, small=20, large=90),
    "concat NCHW4c, 24+44, batch 2": images(
        joined(1), (2, 6, 0, 0, 4), (2, 11, 0, 0, 4), small=20, large=90
    ),
    "concat of a token": both(
        joined(1), ((1, 1, 192), (1, 300, 192)), ((1, 1, 768), (1, 2000, 768))
    ),
    "concat of tokens, batch 4": both(
        joined(1), ((4, 1, 192), (4, 80, 192)), ((4, 1, 768), (4, 500, 768))
    ),
    "split NCHW in 2": images(parts(2, 1), (1, 64, 0, 0)),
    "split NCHW in 4, batch 2": images(parts(4, 1), (2, 64, 0, 0), small=20, large=90),
    "split NHWC in 2": images(parts(2, 3), (1, 0, 0, 64)),
    "split NHWC in 4 of 26": images(parts(4, 3), (1, 0, 0, 104), small=24, large=100),
    "split of rows in 3": both(parts(3, 2), ((1, 197, 576),), ((1, 1000, 2304),)),
    "split NCHW8c in 2, batch 2": images(parts(2, 1), (2, 8, 0, 0, 8), small=20, large=90),
    "slice NCHW, half of the channels": images(
        cut((32,), (64,), (1,)),
        (4, 64, 0, 0),
        small=20,
        large=90,
    ),
    "slice NHWC, half of the channels": images(
        cut((32,), (64,), (3,)), (1, 0, 0, 64), small=40, large=170
    ),
    "slice NCHW, inner image": images(cut((1, 1), (-1, -1), (2, 3)), (1, 96, 0, 0)),
    "pad NCHW": images(padded(0, 0, 1, 1), (1, 64, 0, 0)),
    "pad NHWC, 24 channels": images(padded(0, 1, 1, 0), (1, 0, 0, 24), small=45, large=200),
    "pad NHWC, 64 channels": images(padded(0, 1, 1, 0), (1, 0, 0, 64)),
    "pad NCHW16c": images(padded(0, 0, 1, 1, 0), (1, 4, 0, 0, 16)),
    "pad NCHW4c": images(padded(0, 0, 1, 1, 0), (1, 16, 0, 0, 4)),
    "pad of rows": both(padded(0, 2, 0), ((1, 300, 192),), ((1, 2000, 768),)),
    "pad of channels, 44 to 48": images(
        lambda x: relay.nn.pad(x, [(0, 0), (0, 4), (0, 0), (0, 0)]), (1, 44, 0, 0)
    ),
    "NCHW to NHWC": images(turned(0, 2, 3, 1), (1, 64, 0, 0)),
    "NCHW to NHWC, 44 channels": images(turned(0, 2, 3, 1), (1, 44, 0, 0)),
    "NCHW to NHWC, 3 channels": images(turned(0, 2, 3, 1), (1, 3, 0, 0), small=140, large=640),
    "NHWC to NCHW": images(turned(0, 3, 1, 2), (1, 0, 0, 64)),
    "NHWC to NCHW, 154 channels": images(turned(0, 3, 1, 2), (1, 0, 0, 154), small=20, large=90),
    "NHWC to NCHW, 7 wide": both(turned(0, 3, 1, 2), ((1, 7, 7, 960),), ((32, 7, 7, 960),)),
    "transpose of a matrix": both(turned(1, 0), ((256, 300),), ((1024, 1500),)),
    "heads to the front": both(turned(0, 2, 1, 3), ((1, 197, 6, 64),), ((1, 2000, 12, 64),)),
    "heads to the front, 30 wide": both(
        turned(0, 2, 1, 3), ((1, 256, 8, 30),), ((4, 1024, 12, 30),)
    ),
    "keys turned": both(turned(0, 2, 3, 1), ((1, 197, 6, 64),), ((1, 2000, 12, 64),)),
    "NCHW to NCHW16c": images(layout("NCHW", "NCHW16c"), (1, 64, 0, 0)),
    "NCHW16c to NCHW": images(layout("NCHW16c", "NCHW"), (1, 4, 0, 0, 16)),
    "NCHW to NCHW8c, 7 wide": both(layout("NCHW", "NCHW8c"), ((1, 960, 7, 7),), ((32, 960, 7, 7),)),
    "NCHW to NCHW4c, 44 channels": images(layout("NCHW", "NCHW4c"), (1, 44, 0, 0)),
    "NCHW to NCHW12c, 24 channels": images(
        layout("NCHW", "NCHW12c"), (1, 24, 0, 0), small=45, large=200
    ),
    "NCHW12c to NCHW, 24 channels": images(
        layout("NCHW12c", "NCHW"), (1, 2, 0, 0, 12), small=45, large=200
    ),
    "NCHW22c to NCHW, 154 channels": images(
        layout("NCHW22c", "NCHW"), (1, 7, 0, 0, 22), small=20, large=90
    ),
    "NCHW8c to NCHW16c": images(layout("NCHW8c", "NCHW16c"), (1, 8, 0, 0, 8)),
    "NCHW16c to NCHW4c": images(layout("NCHW16c", "NCHW4c"), (1, 4, 0, 0, 16)),
    "NCHW4c to NCHW12c": images(layout("NCHW4c", "NCHW12c"), (1, 6, 0, 0, 4), small=45, large=200),
    "NCHW4c to NCHW11c, 44 channels": images(layout("NCHW4c", "NCHW11c"), (1, 11, 0, 0, 4)),
    "NHWC to NCHW8c": images(layout("NHWC", "NCHW8c"), (1, 0, 0, 64)),
    "NCHW16c to NHWC": images(layout("NCHW16c", "NHWC"), (1, 4, 0, 0, 16)),
    "nearest NCHW": images(doubled("NCHW"), (1, 32, 0, 0), small=24, large=110),
    "nearest NHWC, 64 channels": images(doubled("NHWC"), (1, 0, 0, 64), small=16, large=80),
    "nearest NHWC, 12 channels": images(doubled("NHWC"), (1, 0, 0, 12), small=40, large=180),
    "nearest NCHW16c": images(doubled("NCHW16c"), (1, 2, 0, 0, 16), small=24, large=110),
    "rows of an embedding": both(rows(1000, 0, 2000), ((2000, 64),), ((2000, 1024),)),
    "gathered channels": images(rows(64, 1, 64), (1, 64, 0, 0)),
    "gathered columns": both(rows(300, 1, 300), ((256, 300),), ((5000, 300),)),
    "channel shuffle NCHW": images(
        refolded([0, -4, 2, -1, 0, 0], (0, 2, 1, 3, 4), [0, -3, 0, 0]), (1, 58, 0, 0)
    ),
    "channel shuffle NHWC": images(
        refolded([0, 0, 0, -4, 2, -1], (0, 1, 2, 4, 3), [0, 0, 0, -3]),
        (1, 0, 0, 116),
        small=20,
        large=90,
    ),
    "windows of 7": images(
        refolded([1, -4, -1, 7, -4, -1, 7, 32], (0, 1, 3, 2, 4, 5), [-1, 49, 32]),
        (1, 0, 0, 32),
        small=42,
        large=182,
    ),
    "image of windows": both(
        refolded([1, 6, 6, 7, 7, -1], (0, 1, 3, 2, 4, 5), [1, 42, 42, -1]),
        ((36, 49, 32),),
        ((36, 49, 1024),),
    ),
    "rolled by 3": images(rolled(3, 1, 2), (1, 0, 0, 32), small=42, large=182),
    "rolled by 3, 96 channels": images(rolled(3, 1, 2), (1, 0, 0, 96), small=28, large=126),
    "merged patches": images(
        lambda x: joined(3)(
            *(cut(begin, (999, 999), (1, 2), 2)(x) for begin in ((0, 0), (1, 0), (0, 1), (1, 1)))
        ),
        (1, 0, 0, 96),
    ),
    "depth to space NCHW": images(lambda x: relay.nn.depth_to_space(x, 2), (1, 64, 0, 0)),
    "space to depth NCHW": images(
        lambda x: relay.nn.space_to_depth(x, 2), (1, 16, 0, 0), small=56, large=248
    ),
    "stack of 2": images(lambda *xs: relay.stack(xs, 2), (1, 32, 0, 0), (1, 32, 0, 0)),
    "every second row and column NCHW": images(
        cut((0, 0), (999, 999), (2, 3), 2),
        (1, 64, 0, 0),
        small=56,
        large=248,
    ),
}
"""Operators by name."""


@dataclass(frozen=True, slots=True)
class Row:
    """Race of one operator in one size with memcpy."""

    name: str
    lanes: int
    copied: int
    """Bytes that memcpy copies, which it reads and writes."""
    kernels: int
    race: Comparison

    @property
    def rate(self) -> float:
        """Part of memcpy's rate that the operator reaches, each in its fastest round."""
        return self.least_ns("memcpy") / self.least_ns(self.name)

    def least_ns(self, name: str) -> float:
        """Nanoseconds of a contestant in its fastest round."""
        place = self.race.names.index(name)
        return min(each.run_ns[place] or math.inf for each in self.race.rounds)

    def as_record(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "lanes": self.lanes,
            "bytes": self.copied,
            "kernels": self.kernels,
            "race": self.race.as_record(),
        }


def raced(name: str, operator: OneOperator) -> Iterator[Row]:
    """Races of one operator in one size, on one lane and on two."""
    # No library computes these operators, so there is nothing that a search would choose.
    model = tvm_ios.compile_schedule(operator.module, {}, lanes=max(LANES))
    for lanes in LANES:
        with operator.executor_of(model, lanes=lanes) as executor:
            executor.run()
            outputs = range(executor.get_num_outputs())
            written = sum(executor.get_output(place).numpy().nbytes for place in outputs)
            copied = (written + min(written, 4 * sum(map(math.prod, operator.shapes)))) // 2
            contestants = {name: executor.time_ns, "memcpy": memcpy_of(copied, lanes)}
            race = compare(contestants, options=RACE)
            yield Row(name, lanes, copied, len(model.plan.launches), race)


def memcpy_of(size: int, lanes: int) -> Callable[[int], int]:
    """Timed runs of a memcpy."""
    function = MEMCPY.library.copies_ns
    function.restype = ctypes.c_int64
    function.argtypes = (*[ctypes.c_void_p] * 2, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64)
    both = [tvm.nd.array(np.ones(size, "int8")) for _ in range(2)]
    return lambda runs: function(*(each.handle.contents.data for each in both), size, lanes, runs)


def table(rows: list[Row]) -> str:
    """Lines of rates, by size and lanes."""
    heads = [f"{size}, {lanes} lanes" for size in ("small", "large") for lanes in LANES]
    lines = [f"{'operator':32} kernels" + "".join(f"{head:>16}" for head in heads)]
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        rates = "".join(f"{row.rate:16.2f}" for row in own)
        lines.append(f"{name:32} {own[0].kernels:7}{rates}")
    few = sum(row.rate < WANTED for row in rows)
    lines.append(f"below {WANTED:.0%} of memcpy: {few} of {len(rows)}")
    return "\n".join(lines) + "\n"


def main(wanted: list[str]) -> None:
    """Table and races of the operators whose names have a wanted part; stored if all are wanted."""
    chosen = {
        name: sizes
        for name, sizes in CASES.items()
        if not wanted or any(part in name for part in wanted)
    }
    rows = []
    for name, sizes in chosen.items():
        own = [row for operator in sizes for row in raced(name, operator)]
        rows += own
        print(
            name,
            *(f"{row.rate:.2f} ({row.least_ns(name) / 1000:.0f} us)" for row in own),
            flush=True,
        )
    text = table(rows)
    print(text, end="")
    if wanted:
        return
    (RESULTS / "copies.txt").write_text(text)
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.copies")).origin()
    record = origin | {"rows": [row.as_record() for row in rows]}
    (RESULTS / "copies.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
