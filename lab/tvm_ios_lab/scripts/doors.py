"""Networks of PyTorch through every way into this project, raced against each other.

``python -m tvm_ios_lab.scripts.doors [NAMES]`` with an interpreter that has TVM, torch and
onnxscript. A network comes as ONNX of torch's old and its new exporter, by ``tvm_ios.from_torch``,
from what ``torch.compile`` hands over and, where it is there, from ``tvm_ios.models``. All are
compiled in sequential order with oneDNN where it can, and timed in turn, two lanes each; outputs
are compared with torch's. The table and the races go to ``lab/results/doors.txt`` and ``.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tvm

import tvm_ios
from tvm_ios import BuildOptions, CompareOptions, TuneOptions
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.errors import ModelError
from tvm_ios.measure.compare import Comparison, compare
from tvm_ios.models import by_name
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS
from tvm_ios_lab.scripts.door_networks import NETWORKS, DoorNetwork

LANES = 2
RACE = CompareOptions(rounds=40, longest_s=60)
OPTIONS = TuneOptions(build=BuildOptions(libraries=("onednn",)))
TOLERANCE = 1e-3
"""Largest difference from torch, as a part of the largest value, that is no error."""
BUILDER = "tvm_ios.models"
EXPORTERS = {"ONNX, old": (False, 17), "ONNX, new": (True, 20)}
"""Way of ``torch.onnx.export`` and its opset, by door."""

Model = tuple[tvm.IRModule, Any]


def doors(network: DoorNetwork) -> Iterator[tuple[str, Model]]:
    """Relay modules of a network, with parameters, by door; others are raced over the first."""
    if network.builder:
        yield BUILDER, by_name(network.builder)(**network.built_with)
    module, example = network.module(), network.example()
    yield "from_torch", tvm_ios.from_torch(module, example)
    yield "torch.compile", _captured(module, example)
    for door, (dynamo, opset) in EXPORTERS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            told = {"dynamo": dynamo, "opset_version": opset, "external_data": False}
            more = {"verbose": False} if dynamo else {}
            torch.onnx.export(module, (example,), str(path), **told, **more)
            yield door, tvm_ios.from_onnx(str(path))


def _captured(module: torch.nn.Module, example: torch.Tensor) -> Model:
    """Model that the backend of ``torch.compile`` would tune."""
    seen = []

    def refuse(call: TuneCall) -> None:
        seen.append((call.mod, call.params))
        raise ModelError("seen")

    torch.compiler.reset()
    with patch("tvm_ios.pytorch.program.begin_tune", refuse), torch.inference_mode():
        torch.compile(module, backend="tvm_ios")(example)
    (model,) = seen
    return model


def raced(network: DoorNetwork) -> tuple[Comparison, dict[str, int]]:
    """The race of a network's doors, and the number of operators of each."""
    example, executors, sizes = network.example(), {}, {}
    with torch.inference_mode():
        wanted = network.module()(example).numpy()
    for door, (mod, params) in doors(network):
        model = tvm_ios.compile_schedule(mod, params, lanes=LANES, options=OPTIONS)
        executors[door] = executor = model.executor()
        sizes[door] = len(model.graph.operators)
        executor.run(**{executor.input_names[0]: example.numpy()})
        if door != BUILDER:  # whose weights are others
            found = executor.get_output(0).numpy()
            difference = np.abs(found - wanted).max() / np.abs(wanted).max()
            if difference > TOLERANCE:
                raise ModelError(f"{door}: the output differs from torch's by {difference:.2g}")
    first = next(iter(executors.values()))
    times = {door: executor.time_ns for door, executor in executors.items()}
    return compare(times, options=RACE, ping_pong_ns=first.ping_pong_ns), sizes


def table(races: dict[str, Comparison]) -> str:
    """Lines of milliseconds of the first door, and how many times as fast each other one is."""
    columns = ("torch.compile", *EXPORTERS)
    lines = [
        f"{'network':20} {'first door':15} {'ms':>7}"
        + "".join(f"  {door:21}" for door in ("from_torch", *columns))
    ]
    for name, race in races.items():
        first = race.names[0]
        line = f"{name:20} {first:15} {race.median_ns(first) / 1e6:7.3f}"
        for door in ("from_torch", *columns):
            faster = race.speedup(door, over=first) if door != first else None
            text = f"{faster.ratio:.3f} ({faster.low:.3f} to {faster.high:.3f})" if faster else "1"
            line += f"  {text:21}"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def main() -> None:
    """Race all networks, or those that are named, and keep the table and the races."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NETWORKS), help="networks (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("tvm_ios.pytorch").setLevel(logging.ERROR)
    races: dict[str, Comparison] = {}
    operators: dict[str, dict[str, int]] = {}
    for name in asked.names:
        races[name], operators[name] = raced(NETWORKS[name])
        print(table({name: races[name]}), Counter(operators[name].values()), flush=True)
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.doors")).origin()
    kept = {name: race.as_record() for name, race in races.items()}
    record = origin | {"lanes": LANES, "operators": operators, "races": kept}
    (asked.out / "doors.txt").write_text(table(races))
    (asked.out / "doors.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
