"""Cost of a call from C over the executor's loop: ``python -m tvm_ios_lab.scripts.c_call``.

A model of one small operator is exported, and ``c_call.c`` runs it by ``tvm_ios_model_run`` and in
the executor's own loop, by turns. Every round goes to ``lab/results/c_call.json``.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS

HERE = Path(__file__).parent
RESULT = RESULTS / "c_call.json"
ROUNDS, RUNS = 41, 20_000
LANES = (1, 2)


def _said(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    return done.stdout


def _export(file: Path) -> None:
    """A model of one rectifier of 64 numbers."""
    import tvm  # noqa: PLC0415 - loaded by who measures
    from tvm import relay  # noqa: PLC0415

    import tvm_ios  # noqa: PLC0415

    x = relay.var("x", shape=(1, 64))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    tvm_ios.compile_schedule(mod, {}, lanes=max(LANES)).export_library(file)


def main() -> None:
    """Build, measure, write and print."""
    command = (sys.executable, "-m", "tvm_ios", "c-api")
    rows: dict[int, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model, program = Path(folder) / "model.so", Path(folder) / "c_call"
        _export(model)
        # The program includes tvm_ios_model.c, so that is no file of its own here.
        words = [w for w in shlex.split(_said(*command)) if not w.endswith("tvm_ios_model.c")]
        _said("cc", "-O2", "-std=gnu11", HERE / "c_call.c", *words, "-o", program)
        said = shlex.split(_said(*command, "--environment"))
        libraries = dict(word.split("=", 1) for word in said)
        for lanes in LANES:
            lines = _said(program, model, str(lanes), str(ROUNDS), str(RUNS), **libraries)
            rows[lanes] = [[float(ns) for ns in line.split()] for line in lines.splitlines()]
    record = {
        **Measurement.here(program_command("tvm_ios_lab.scripts.c_call")).origin(),
        "runs_a_round": RUNS,
        "rounds": [{"lanes": n, "ns_of_a_run": ["loop", "calls"], "rows": rows[n]} for n in rows],
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for lanes, measured in rows.items():
        costs = sorted(calls - loop for loop, calls in measured)
        loop, calls = (statistics.median(column) for column in zip(*measured, strict=True))
        print(
            f"lanes {lanes}: loop {loop:.0f} ns, calls {calls:.0f} ns, a call costs "
            f"{statistics.median(costs):.0f} ns more ({costs[2]:.0f} to {costs[-3]:.0f}, "
            "all but two rounds at each end)"
        )


if __name__ == "__main__":
    main()
