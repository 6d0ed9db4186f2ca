"""Overhead of operators below 2 µs: ``python -m tvm_ios_lab.scripts.small_operators [NAME ...]``.

Each network has up to hundreds of lookups, pooled sums, small products and concatenations. A run
takes turns with a bare C loop over the same kernel calls, in sequential order on one lane and as a
list on two. The overhead is what a run takes more than the loop over the calls of its longest lane,
by the number of these calls; of each the least counts, since others only add. Rounds go to
``lab/results/small_operators.json``.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm
from tvm import relay

import tvm_ios
from tvm_ios import BuildOptions, TuneOptions
from tvm_ios.runtime.base.native_runtime import NativeLaunch, address_of
from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
from tvm_ios.support.c_compiler import NativeSource
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

__all__ = ["NETWORKS", "Network", "as_text", "lookups", "main", "measured"]

BARE = NativeSource(Path(__file__).with_suffix(".c"))
RESULT = RESULTS / "small_operators.json"
ROUNDS, SAMPLE_NS, PRICE_RUNS = 41, 2_000_000, 500
_ROWS = 1000
_INPUT = "numbers"


@dataclass(frozen=True, slots=True)
class Network:
    """Network of small operators on numbers of rows, int64."""

    numbers: int
    """Number of rows that an input names."""
    compute: Callable[[relay.Expr, np.random.Generator], relay.Expr]

    def module(self) -> tvm.IRModule:
        """The network in Relay."""
        read = relay.var(_INPUT, shape=(1, self.numbers), dtype="int64")
        body = self.compute(read, np.random.default_rng(0))
        return tvm.IRModule.from_expr(relay.Function([read], body))

    def input(self) -> np.ndarray[Any, Any]:
        """Numbers of rows."""
        return np.random.default_rng(1).integers(0, _ROWS, (1, self.numbers), "int64")


def _random(random: np.random.Generator, *shape: int) -> relay.Constant:
    return relay.const(random.standard_normal(shape, "float32") / shape[-1])


def _rows(read: relay.Expr, begin: int, count: int, features: int, random: Any) -> relay.Expr:
    """Rows of a table of its own, of some of the numbers."""
    some = relay.strided_slice(read, [begin], [begin + count], axes=[1])
    return relay.take(_random(random, _ROWS, features), relay.reshape(some, [count]), axis=0)


def lookups(tables: int, features: int) -> Network:
    """Rows of many tables side by side."""

    def compute(read: relay.Expr, random: np.random.Generator) -> relay.Expr:
        found = [_rows(read, i, 1, features, random) for i in range(tables)]
        return relay.concatenate(_apart(found), axis=1)

    return Network(tables, compute)


def pooled(tables: int, features: int, count: int) -> Network:
    """Sums of some rows of many tables, side by side."""

    def compute(read: relay.Expr, random: np.random.Generator) -> relay.Expr:
        bags = [_rows(read, count * i, count, features, random) for i in range(tables)]
        return relay.concatenate([relay.sum(bag, 0, keepdims=True) for bag in bags], axis=1)

    return Network(count * tables, compute)


def products(tables: int, features: int, rows: int) -> Network:
    """Products of some rows of many tables with a matrix each, side by side."""

    def compute(read: relay.Expr, random: np.random.Generator) -> relay.Expr:
        found = [_rows(read, rows * i, rows, features, random) for i in range(tables)]
        weights = [_random(random, 16, features) for _ in found]
        made = [relay.nn.dense(x, weight) for x, weight in zip(found, weights, strict=True)]
        return relay.concatenate(made, axis=1)

    return Network(rows * tables, compute)


def towers(tables: int, features: int, count: int) -> Network:
    """Towers of a pooled sum and two products each, side by side, and a product of them all."""

    def compute(read: relay.Expr, random: np.random.Generator) -> relay.Expr:
        made = []
        for i in range(tables):
            x = relay.sum(_rows(read, count * i, count, features, random), 0, keepdims=True)
            x = relay.nn.relu(relay.nn.dense(x, _random(random, 16, features)))
            made.append(relay.nn.dense(x, _random(random, 8, 16)))
        return relay.nn.dense(relay.concatenate(made, axis=1), _random(random, 4, 8 * tables))

    return Network(count * tables, compute)


def _apart(values: Sequence[relay.Expr]) -> list[relay.Expr]:
    """Values that no operator after them computes in one piece."""
    return [relay.annotation.stop_fusion(value) for value in values]


NETWORKS = {
    "26 lookups": lookups(26, 16),
    "300 lookups": lookups(300, 16),
    "26 pooled sums": pooled(26, 32, 8),
    "300 pooled sums": pooled(300, 32, 8),
    "100 products, m = 1": products(100, 32, 1),
    "100 products, m = 4": products(100, 32, 4),
    "50 products, m = 16": products(50, 32, 16),
    "80 towers": towers(80, 32, 4),
}


class _BareLoop(ctypes.Structure):
    _fields_ = (("launches", ctypes.c_void_p), ("count", ctypes.c_int64))


class Calls:
    """Kernel calls of an executor, to be run by a bare loop on its first lane."""

    def __init__(self, executor: Any) -> None:
        # The executor's own parts: only the loop around the calls is to be another one.
        self._executor = executor
        self._lane = executor._lane_executor  # noqa: SLF001
        self._pool, loaded = self._lane._pool, self._lane._loaded  # noqa: SLF001
        self._first = self._pool.runtime.plan_launches(loaded.handle)
        self._all = len(self._lane.plan.launches)

    def of_lanes(self) -> list[list[int]]:
        """Numbers of the calls of each lane."""
        found: list[list[int]] = [[] for _ in range(self._lane.lanes)]
        for group in self._lane.plan.groups:
            found[group.lane].extend(group.launches)
        return found

    def loop(self, numbers: Sequence[int]) -> Callable[[int], int]:
        """Function that returns the nanoseconds of some runs of a loop over calls."""
        size = ctypes.sizeof(NativeLaunch)
        # Behind all launches lie the same ones that stay on one lane.
        places = [self._first + (self._all + number) * size for number in numbers]
        rows = (ctypes.c_void_p * len(places))(*places)
        loop = _BareLoop(ctypes.addressof(rows), len(places))
        launch = NativeLaunch(
            kernel=address_of(BARE.library, "bare_loop"),
            arguments=None,
            type_codes=None,
            resource=ctypes.addressof(loop),
            num_arguments=0,
            serial=1,
        )
        program = self._pool.program([[ctypes.addressof(launch)]], [[]])
        kept = (rows, loop, launch)

        def time_ns(number: int) -> int:
            assert kept
            return int(self._pool.time_ns(program, number))

        return time_ns


def _prices(calls: Calls, numbers: Sequence[int]) -> dict[int, int]:
    """Nanoseconds of each call alone, the least of three samples."""
    found = {}
    for number in numbers:
        loop = calls.loop([number])
        found[number] = min(loop(PRICE_RUNS) for _ in range(3)) // PRICE_RUNS
    return found


def _listed(model: Any, prices: dict[int, int]) -> Any:
    """List of a model's operators on two lanes, by their prices."""
    names = {launch.operator: number for number, launch in enumerate(model.plan.launches)}
    alone = [prices.get(names.get(operator.name, -1), 0) for operator in model.graph.operators]
    times = OperatorTimes(alone_ns=alone, helped_ns=alone)
    return list_schedule(model.graph, times, lanes=2, start=model.schedule)


def measured(name: str, network: Network, rounds_each: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """Rounds of both orders of a network, whose outputs have to be equal."""
    options = TuneOptions(build=BuildOptions(libraries=()))
    mod = network.module()
    model = tvm_ios.compile_schedule(mod, {}, lanes=1, options=options)
    prices: dict[int, int] = {}
    outputs = []
    for order in ("sequential", "list"):
        if order == "list":
            listed = _listed(model, prices)
            model = tvm_ios.compile_schedule(mod, {}, schedule=listed, lanes=2, options=options)
        with model.executor() as executor:
            executor.set_input(_INPUT, network.input())
            executor.run()
            outputs.append(executor.get_output(0).numpy())
            calls = Calls(executor)
            lanes = calls.of_lanes()
            prices = prices or _prices(calls, lanes[0])
            loops = [calls.loop(numbers) for numbers in lanes]
            runs = [max(1, SAMPLE_NS // max(1, executor.time_ns(50) // 50))] * (1 + len(loops))
            timed = [executor.time_ns, *loops]
            rounds, ping_pongs = [], []
            for _ in range(rounds_each):
                rounds.append(
                    [time_ns(many) / many for time_ns, many in zip(timed, runs, strict=True)]
                )
                ping_pongs.append(executor.ping_pong_ns())
        np.testing.assert_array_equal(outputs[0], outputs[-1])
        yield {
            "network": name,
            "order": order,
            "operators": [len(numbers) for numbers in lanes],
            "longest_operator_ns": max(prices.values()),
            "rounds_ns": rounds,
            "ping_pongs_ns": ping_pongs,
        }


def as_text(record: dict[str, Any]) -> str:
    """Line with the least times of a network's rounds, and the overhead of an operator."""
    run_us, *loops_us = (min(column) / 1e3 for column in zip(*record["rounds_ns"], strict=True))
    longest = loops_us.index(max(loops_us))
    overhead_ns = (run_us - loops_us[longest]) * 1e3 / record["operators"][longest]
    bare = " and ".join(f"{loop_us:.2f}" for loop_us in loops_us)
    return (
        f"{record['network']}, {record['order']}: {sum(record['operators'])} operators, longest "
        f"{record['longest_operator_ns'] / 1e3:.2f} us; run {run_us:.2f} us, bare {bare} us, "
        f"overhead of an operator {overhead_ns:.0f} ns "
        f"(ping-pong {median(record['ping_pongs_ns']):.0f} ns)"
    )


def main(names: Sequence[str] = ()) -> None:
    """Measure networks, all where none are named, and print and store the rounds of all."""
    records = []
    for name in names or NETWORKS:
        for record in measured(name, NETWORKS[name]):
            records.append(record)
            print(as_text(record), flush=True)
    if not names:
        origin = Measurement.here(program_command("tvm_ios_lab.scripts.small_operators")).origin()
        RESULT.write_text(json.dumps({**origin, "networks": records}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
