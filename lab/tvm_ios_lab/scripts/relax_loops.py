"""Loops of kernels of Relax: stock TVM 0.27, its virtual machine on our kernels, and our lanes.

Run from the root of a checkout, with TVM 0.27:

    TVM_IOS_TVM=path TVM_NUM_THREADS=2 python -m tvm_ios_lab.scripts.relax_loops

All take turns, round by round; stock TVM leaves after a few. Every output has the bits of the
virtual machine on the same kernels. ``docs/adr/0049`` has a table of it.

With ``--output lab/results/relax_loops.json`` single operators of real networks take turns instead,
on one core: stock TVM's loops and ours. The file has all rounds; printed is the share of the bound
that ours reach. The bound is the longer one of two times of one core: for the bytes read and
written, at the measured rate of a copy within the second cache, and for the arithmetic, at the
measured rate of multiply-adds. Sums, maxima, products and divisions by an element take a
multiply-add each; comparisons and moved bits are not counted. A core with units for sums alone can
so come below.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.host.lane_speeds import lane_speeds
from tvm_ios.relax.target import host_target
from tvm_ios.report.table import Table
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.scripts.relax_kernels import CASES, kernel_race

STOCK_ROUNDS = 8
OPERATOR_HEADER = ("operator", "stock, µs", "ours, µs", "times as fast", "share of the bound")
HEADER = ("network", "runs", "best, ms", "median, ms")
_RANDOM = np.random.default_rng(0)
_Body = Callable[[relax.BlockBuilder, relax.Var], Any]


def main() -> None:
    """Print the best and the median of each way to run each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rounds = options.rounds
    if options.output is not None:
        _operators(options.output, rounds)
        return
    rows = []
    for name, shape, body in (
        ("squeezenet 1.1", (1, 3, 224, 224), _squeezenet),
        ("inception block", (1, 192, 28, 28), _inception_block),
    ):
        times = _race(_module(shape, body), _drawn(*shape), rounds)
        rows += [
            (name, way, f"{min(taken):.2f}", f"{statistics.median(taken):.2f}")
            for way, taken in times.items()
        ]
    print(Table(header=HEADER, rows=tuple(rows)).as_markdown())


def _operators(output: Path, rounds: int) -> None:
    """Race loops of single operators, write all rounds, and print what they reach."""
    speeds = lane_speeds()
    if speeds is None:
        raise SystemExit("no C compiler, so the speeds of a core are not known; install cc")
    races = {name: kernel_race(case, rounds) for name, case in CASES.items()}
    bounds = {
        name: speeds.bound_ns(case.flops, races[name].size_bytes) for name, case in CASES.items()
    }
    rounds_of = {
        name: {"bound_ns": bounds[name], "stock_ns": race.stock_ns, "ours_ns": race.ours_ns}
        for name, race in races.items()
    }
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.relax_loops")).origin()
    record = origin | {"speeds": speeds.as_text(), "operators": rounds_of}
    output.write_text(json.dumps(record, indent=1) + "\n")
    rows = []
    for name, race in races.items():
        stock, ours = min(race.stock_ns), min(race.ours_ns)
        times = (stock / 1000, ours / 1000, stock / ours)
        rows.append((name, *(f"{each:.1f}" for each in times), f"{bounds[name] / ours:.2f}"))
    print(speeds.as_text())
    print(Table(header=OPERATOR_HEADER, rows=tuple(rows)).as_markdown())


def _race(mod: tvm.IRModule, image: np.ndarray, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each way to run a module, by turns."""
    target = host_target()
    model = build_model(mod, None, target)
    value = tvm.runtime.tensor(image)
    stock = relax.VirtualMachine(
        tvm.compile(relax.get_pipeline("zero")(mod), target=target), tvm.cpu()
    )
    ours = relax.VirtualMachine(tvm.compile(model.prepared.module, target=target), tvm.cpu())
    ways: dict[str, Callable[[], Any]] = {
        "stock Relax": lambda: stock["main"](value),
        "virtual machine, our kernels": lambda: ours["main"](value),
    } | _on_lanes(model, image, ours["main"](value).numpy())
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way, run in ways.items():
            if way == "stock Relax" and number >= STOCK_ROUNDS:
                continue
            begin = time.perf_counter()
            run()
            times[way].append((time.perf_counter() - begin) * 1000)
    return times


def _on_lanes(
    model: BuiltModel, image: np.ndarray, wanted: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """Runs of schedules that need no prices, whose answers were compared."""
    in_order, greedy = sequential_schedule(model.graph), greedy_schedule(model.graph)
    ways: dict[str, Callable[[], Any]] = {}
    for schedule, lanes in ((in_order, 1), (in_order, 2), (greedy, 2)):
        executor = lower_schedule(model, schedule, lanes=lanes).executor()
        executor.run(x=image)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)
        ways[f"{schedule.scheduler}, lanes: {lanes}"] = executor.run
    return ways


def _module(shape: tuple[int, ...], body: _Body) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(body(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def _drawn(*shape: int) -> np.ndarray:
    return (_RANDOM.standard_normal(shape) * 0.05).astype("float32")


def _convolution(
    builder: relax.BlockBuilder, data: relax.Var, channels: int, kernel: int, stride: int = 1
) -> relax.Var:
    weight = relax.const(_drawn(channels, int(data.ty.shape[1]), kernel, kernel))
    padding = kernel // 2 if stride == 1 else 0
    made = builder.emit(relax.op.nn.conv2d(data, weight, strides=stride, padding=padding))
    biased = builder.emit(relax.op.add(made, relax.const(_drawn(1, channels, 1, 1))))
    return builder.emit(relax.op.nn.relu(biased))


def _squeezenet(builder: relax.BlockBuilder, x: relax.Var) -> relax.Var:
    def pooled(data: relax.Var) -> relax.Var:
        return builder.emit(relax.op.nn.max_pool2d(data, (3, 3), strides=2, ceil_mode=True))

    data = pooled(_convolution(builder, x, 64, 3, stride=2))
    for number, (squeezed, expanded) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        data = pooled(data) if number in (2, 4) else data
        data = _convolution(builder, data, squeezed, 1)
        both = [_convolution(builder, data, expanded, kernel) for kernel in (1, 3)]
        data = builder.emit(relax.op.concat(both, axis=1))
    data = _convolution(builder, data, 1000, 1)
    averaged = builder.emit(relax.op.mean(data, [2, 3]))
    return builder.emit(relax.op.nn.softmax(averaged))


def _inception_block(builder: relax.BlockBuilder, x: relax.Var) -> relax.Var:
    def branch(data: relax.Var, *convolutions: tuple[int, int]) -> relax.Var:
        for channels, kernel in convolutions:
            data = _convolution(builder, data, channels, kernel)
        return data

    pooled = builder.emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))
    pieces = [
        branch(x, (64, 1)),
        branch(x, (96, 1), (128, 3)),
        branch(x, (16, 1), (32, 5)),
        branch(pooled, (32, 1)),
    ]
    return builder.emit(relax.op.concat(pieces, axis=1))


if __name__ == "__main__":
    main()
