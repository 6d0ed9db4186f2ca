"""Errors of quantised networks against their float32 originals: onnxruntime's, and ours.

``python -m tvm_ios_lab.scripts.quantised_errors ORIGINALS QUANTISED --networks NAME ...`` reads
what ``tvm_ios_lab.peers`` and ``tvm_ios_lab.scripts.quantise`` have written. onnxruntime computes
what is right, from the original; ours is compiled without tuning, with oneDNN. Inputs are normal
numbers, and whole ones below a thousand. What is in the file of results is not measured again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import tvm_ios
from tvm_ios.host import cached_libinfo
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.peers.subject import Subject

FORMS = ("qdq_per_channel", "qdq_per_tensor", "qoperator", "dynamic")
_FILE, _WHO = "network.onnx", ("onnxruntime", "ours")

Given = Mapping[str, np.ndarray]


def _outputs(path: Path, inputs: Sequence[Given]) -> list[np.ndarray]:
    """First output of onnxruntime for each of some inputs."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [np.asarray(session.run(None, dict(each))[0]) for each in inputs]


def _ours(path: Path, inputs: Sequence[Given]) -> list[np.ndarray]:
    """First output of our compiled model for each input."""
    mod, params = tvm_ios.from_onnx(path)
    options = tvm_ios.TuneOptions.of("balanced", build={"libraries": ("onednn",)})
    with cached_libinfo():
        compiled = tvm_ios.compile_schedule(mod, params, options=options)
    found = []
    with compiled.executor() as executor:
        for each in inputs:
            executor.run(**each)
            found.append(np.array(executor.get_output(0).numpy()))
    return found


def _drawn(path: Path, count: int) -> list[Given]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    draws = np.random.default_rng(0)

    def numbers(value: Any) -> np.ndarray:
        if value.type == "tensor(float)":
            return np.asarray(draws.standard_normal(value.shape), "float32")
        return np.asarray(draws.integers(1, 1000, value.shape), value.type[len("tensor(") : -1])

    return [{each.name: numbers(each) for each in session.get_inputs()} for _ in range(count)]


def _errors(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> dict[str, float]:
    """Root of the mean square, and largest, of differences, each by that of what is wanted."""
    one, other = np.stack(found).astype("float64"), np.stack(wanted).astype("float64")
    apart = one - other
    return {
        "rms": float(np.sqrt((apart**2).mean() / (other**2).mean())),
        "largest": float(np.abs(apart).max() / np.abs(other).max()),
    }


def main() -> None:
    """Measure each network in each form, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("originals", type=Path)
    parser.add_argument("quantised", type=Path)
    parser.add_argument("--networks", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--inputs", type=int, default=8, help="number of inputs (%(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("lab/results/quantised/errors/networks.json")
    )
    asked = parser.parse_args()
    made = Measurement.here(program_command("tvm_ios_lab.scripts.quantised_errors"))
    rows: dict[str, Any] = {}
    if asked.output.exists():
        rows = json.loads(asked.output.read_text(encoding="utf-8"))["networks"]
    for name in asked.networks:
        original = asked.originals / Subject(name).stem / _FILE
        inputs = _drawn(original, asked.inputs)
        wanted = None
        for form in FORMS:
            path = asked.quantised / Subject(f"{name}_{form}").stem / _FILE
            if f"{name}_{form}" in rows or not path.exists():
                continue
            wanted = wanted or _outputs(original, inputs)
            theirs, ours = _outputs(path, inputs), _ours(path, inputs)
            rows[f"{name}_{form}"] = {
                "inputs": asked.inputs,
                "onnxruntime": _errors(theirs, wanted),
                "ours": _errors(ours, wanted),
                "ours from onnxruntime": _errors(ours, theirs),
            }
            content = {**made.origin(), "networks": rows}
            asked.output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            print(name, form, rows[f"{name}_{form}"], flush=True)
    for name, row in rows.items():
        cells = [f"{row[who][what]:.2e}" for what in ("rms", "largest") for who in _WHO]
        print("|", " | ".join([name, *cells]), "|")


if __name__ == "__main__":
    main()
