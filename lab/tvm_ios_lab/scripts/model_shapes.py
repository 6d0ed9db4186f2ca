"""Race between one file of a model in several shapes and a file for each, shape by shape.

All shapes are tuned once, with defaults, and exported together and alone. Rounds have one run of
either file. Memory is that of a process which has run each shape once, beyond one that loaded TVM.

    python -m tvm_ios_lab.scripts.model_shapes --output lab/results/shapes out/mobilenet_v2.onnx \
        --shapes 'data:[1,3,160,160]' --shapes 'data:[1,3,224,224]'
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import tvm_ios
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios_lab.measurement import Measurement, program_command

ROUNDS = 400
LONGEST_S = 15.0
_RUN_EACH = """
import sys
import tvm_ios
from tvm_ios.runtime.base.sample_inputs import sample_inputs
kept = []
def anonymous_kb():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
import tvm_ios.runtime.artifact.artifact
begin_kb = anonymous_kb()
for path in sys.argv[1:]:
    executor = tvm_ios.load(path)
    kept.append(executor)
    for shape in getattr(executor, "shapes", [None]):
        if shape is not None:
            executor.choose(dict(zip(shape.inputs, shape.shapes)))
        names = {entry.name for entry in executor.plan.inputs} - set(executor.input_names)
        executor.run(**sample_inputs(executor.plan, names))
print(anonymous_kb() - begin_kb)
"""


def main(words: Sequence[str] | None = None) -> None:
    """Race a model's shapes, and print and store the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--shapes", action="append", required=True)
    parser.add_argument("model", type=Path)
    arguments = parser.parse_args(words)
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    given = [dict(InputShapes.parse(text).shapes) for text in arguments.shapes]
    shapes = tvm_ios.tune_shapes(str(arguments.model), given)
    print(shapes.report().summary())
    together = folder / f"{arguments.model.stem}.so"
    alone = {name: folder / f"{n}.so" for n, name in enumerate(shapes.models)}
    shapes.export_library(together)
    for name, path in alone.items():
        shapes.models[name].export_library(path)
    facts = {
        "file_bytes": {"together": together.stat().st_size}
        | {name: path.stat().st_size for name, path in alone.items()},
        "memory_kb": {"together": memory_kb(together), "alone": memory_kb(*alone.values())},
        "rounds_ns": {
            name: raced(together, wanted, path)
            for wanted, (name, path) in zip(given, alone.items(), strict=True)
        },
    }
    told = [f"{name}: {summary(rounds)}" for name, rounds in facts["rounds_ns"].items()]
    print(*told, json.dumps(facts["file_bytes"]), json.dumps(facts["memory_kb"]), sep="\n")
    measured = Measurement.here(program_command("tvm_ios_lab.scripts.model_shapes"))
    record = {**measured.origin(), **facts, "told": told}
    (folder / f"{arguments.model.stem}.json").write_text(json.dumps(record) + "\n")
    for path in (together, *alone.values()):
        path.unlink()


def memory_kb(*files: Path) -> int:
    """Anonymous memory in KiB of a process that runs each shape of files."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN_EACH, *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def raced(together: Path, shape: dict[str, tuple[int, ...]], alone: Path) -> list[list[int]]:
    """Nanoseconds of rounds: a run of the file of several shapes in one, then of that one's own."""
    with ExitStack() as stack:
        executors = [stack.enter_context(tvm_ios.load(path)) for path in (together, alone)]
        assert isinstance(executors[0], tvm_ios.ShapesModule), "it was exported with several shapes"
        executors[0].choose(shape)
        return in_turns(executors)


def in_turns(executors: Sequence[Any]) -> list[list[int]]:
    """Nanoseconds of rounds: a run of each executor, in either order by turns."""
    for executor in executors:
        executor.time_ns(3)
    rounds: list[list[int]] = []
    end_s = time.monotonic() + LONGEST_S
    while len(rounds) < ROUNDS and time.monotonic() < end_s:
        turns = executors if len(rounds) % 2 else executors[::-1]
        taken = {id(executor): executor.time_ns(1) for executor in turns}
        rounds.append([taken[id(executor)] for executor in executors])
    return rounds


def summary(rounds: Sequence[Sequence[int]]) -> str:
    """Medians in words, with the ratio and an interval that holds its median."""
    ratios = sorted(alone / together for together, alone in rounds)
    middle, spread = len(ratios) // 2, int(len(ratios) ** 0.5)
    low, high = ratios[max(0, middle - spread)], ratios[min(len(ratios) - 1, middle + spread)]
    medians = [median(row[place] for row in rounds) / 1e6 for place in range(2)]
    return (
        f"together {medians[0]:.3f} ms, alone {medians[1]:.3f} ms, "
        f"{ratios[middle]:.3f} ({low:.3f} to {high:.3f}) times as fast"
    )


if __name__ == "__main__":
    main()
