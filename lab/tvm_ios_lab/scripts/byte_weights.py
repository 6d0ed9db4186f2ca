"""Race of dense layers whose weights are bytes against equal ones whose weights are float32.

Both are tuned with defaults, so oneDNN computes the second ones where it is the fastest. A round is
a run of each.

    python -m tvm_ios_lab.scripts.byte_weights --output lab/results/byte_weights.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import tvm

import tvm_ios
from tvm_ios.models.operators import IS_RELAX, op
from tvm_ios.models.weights import Network
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.scripts.model_shapes import in_turns

__all__ = ["layer", "main"]

SIZES, ROWS, BLOCKS = (512, 1536, 4096), (1, 4, 8, 16), (0, 32)
"""Inputs and outputs, rows, and weights that share a scale; 0 for those of a column."""


def layer(rows: int, size: int, block: int, *, whole: bool) -> Network:
    """Dense layer with a square of weights, which are whole steps or not, and its parameters."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((size, size), "float32")
    if whole:
        blocks = weights.reshape(size, -1, block or size)
        steps = np.abs(blocks).max(axis=2, keepdims=True) / np.float32(127)
        weights = (np.rint(blocks / steps) * steps).reshape(size, size)
    variables = [op.var("data", shape=(rows, size)), op.var("weights", shape=weights.shape)]
    made = op.nn.relu(op.nn.dense(*variables))
    module = (
        op.module_of(variables, made)
        if IS_RELAX
        else tvm.IRModule.from_expr(op.Function(variables, made))
    )
    return module, {"weights": weights}


def main(words: Sequence[str] | None = None) -> None:
    """Race each layer, print its times and store its rounds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    arguments = parser.parse_args(words)
    rows_of = []
    for size in arguments.sizes:
        for rows in ROWS:
            plain = tvm_ios.tune(*layer(rows, size, 0, whole=False))
            for block in BLOCKS:
                made = tvm_ios.tune(*layer(rows, size, block, whole=True))
                with made.executor() as ours, plain.executor() as other:
                    rounds = in_turns((ours, other))
                told = [median(column) / 1e3 for column in zip(*rounds, strict=True)]
                ratio = median(other / own for own, other in rounds)
                print(
                    f"{rows} rows, {size} x {size}, blocks of {block or size}: bytes "
                    f"{told[0]:.1f} us, float32 {told[1]:.1f} us, {ratio:.2f} times as fast",
                    flush=True,
                )
                rows_of.append({"rows": rows, "size": size, "block": block, "rounds_ns": rounds})
    measured = Measurement.here(program_command("tvm_ios_lab.scripts.byte_weights"))
    arguments.output.write_text(json.dumps({**measured.origin(), "layers": rows_of}) + "\n")


if __name__ == "__main__":
    main()
