"""Compares the first run of a network after another contestant with the runs right after it.

``python -m benchmarks.first_runs NETWORK…`` takes the contestants of a ``tune``, and times three
runs of each by turns: how much the first one loses to caches that others filled, and whether that
moves the ratios a race decides by. Races leave out the warm-up of long runs for what this shows.
"""

from __future__ import annotations

import argparse
from statistics import median

from tvm_ios.driver.tune import TuneCall, tune_race
from tvm_ios.models import by_name
from tvm_ios.runtime.base.sample_inputs import sample_inputs

RUNS = 3


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    for network in arguments.networks:
        mod, params = by_name(network)()
        _report(network, _timed(TuneCall(mod=mod, params=params), arguments.rounds))


def _timed(call: TuneCall, rounds: int) -> dict[str, list[list[int]]]:
    """Nanoseconds of the runs of each round, by contestant, the first one's first."""
    models = {who.value: model for who, model in tune_race(call).models.items()}
    executors = {name: model.executor() for name, model in models.items()}
    first = next(iter(models.values()))
    for executor in executors.values():
        for name, value in sample_inputs(first.plan, first.kernels.staged.params).items():
            executor.set_input(name, value)
        executor.time_ns(2)
    found: dict[str, list[list[int]]] = {name: [] for name in executors}
    for number in range(rounds):
        names = list(executors)
        shift = number % len(names)
        order = names[shift:] + names[:shift]
        for name in order[::-1] if number // len(names) % 2 else order:
            found[name].append([executors[name].time_ns(1) for _ in range(RUNS)])
    return found


def _report(network: str, found: dict[str, list[list[int]]]) -> None:
    base, *others = found
    for name, rounds in found.items():
        times = ", ".join(f"{median(row[run] for row in rounds) / 1e6:.2f}" for run in range(RUNS))
        lost = median(row[0] / row[1] for row in rounds)
        print(f"{network} {name}: {times} ms; first run by second {lost:.4f}")
    for name in others:
        pairs = list(zip(found[name], found[base], strict=True))
        ratios = [median(own[run] / first[run] for own, first in pairs) for run in range(RUNS)]
        told = ", ".join(f"{ratio:.4f}" for ratio in ratios)
        print(f"{network} {name} by {base}, first to third runs: {told}")


if __name__ == "__main__":
    main()
