"""Race between one file of several models and a file for each, run one after another.

Each argument names models between commas, by the folder of their ``network.onnx``. All are tuned
with defaults; rounds have one run of the joint file and one of each other file.

    python -m tvm_ios_lab.scripts.joined_models --folder out/peers --output lab/results/joined \
        mobilenet_v2_bs1,squeezenet_bs1
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import tvm_ios
from tvm_ios.driver.model_source import ModelSource
from tvm_ios_lab.measurement import Measurement, program_command

ROUNDS = 400
LONGEST_S = 15.0


def main(words: Sequence[str] | None = None) -> None:
    """Race each set of models, and print and store its rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args(words)
    arguments.output.mkdir(parents=True, exist_ok=True)
    alone: dict[str, Any] = {}
    for row in arguments.models:
        names = row.split(",")
        files = {name: arguments.folder / name / "network.onnx" for name in names}
        for name in names:
            if name not in alone:
                source = ModelSource.of(files[name])
                alone[name] = tvm_ios.tune(source.mod, source.params)
        rounds = raced(tvm_ios.tune(files), {name: alone[name] for name in names})
        told = summary(rounds)
        print(row, told, flush=True)
        measured = Measurement.here(program_command("tvm_ios_lab.scripts.joined_models"))
        record = {**measured.origin(), "models": names, "rounds_ns": rounds, "told": told}
        path = arguments.output / f"{'+'.join(names)}.json"
        path.write_text(json.dumps(record) + "\n")


def raced(joint: Any, alone: Mapping[str, Any]) -> list[list[int]]:
    """Nanoseconds of rounds: a run of the joint model, then one of each other."""
    with ExitStack() as stack:
        executors = [stack.enter_context(each.executor()) for each in (joint, *alone.values())]
        for executor in executors:
            executor.time_ns(3)
        rounds: list[list[int]] = []
        end_s = time.monotonic() + LONGEST_S
        while len(rounds) < ROUNDS and time.monotonic() < end_s:
            rounds.append([executor.time_ns(1) for executor in executors])
    return rounds


def summary(rounds: Sequence[Sequence[int]]) -> str:
    """Medians in words, with the ratio and an interval that holds its median."""
    ratios = sorted(sum(others) / joint for joint, *others in rounds)
    middle, spread = len(ratios) // 2, int(len(ratios) ** 0.5)
    low, high = ratios[max(0, middle - spread)], ratios[min(len(ratios) - 1, middle + spread)]
    joint_ms = median(row[0] for row in rounds) / 1e6
    in_turn_ms = median(sum(row[1:]) for row in rounds) / 1e6
    return (
        f"joint {joint_ms:.3f} ms, one after another {in_turn_ms:.3f} ms, "
        f"{ratios[middle]:.3f} ({low:.3f} to {high:.3f}) times as fast"
    )


if __name__ == "__main__":
    main()
