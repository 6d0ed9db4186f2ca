"""What a launch costs beside stock TVM's: ``python -m benchmarks.tiny_chain``.

Chains of operators so small that starting them is most of their time, by TVM's graph executor and
by ours in sequential order, interleaved in one process. TVM's kernels have no parallel region for
the smaller shape, and one for the larger. Medians, ratios and all rounds go to
``benchmarks/results/tiny_chain.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.measure.comparison import Comparison

RESULT = Path(__file__).parent / "results" / "tiny_chain.json"
OPERATORS = 201
SHAPES = ((1, 16), (1, 16, 8, 8))
ROUNDS = 60


def main() -> None:
    """Build, race, write and print."""
    lanes = prepare_process(None)
    # TVM reads the number of threads when it is loaded.
    import tvm  # noqa: PLC0415
    from tvm import relay  # noqa: PLC0415

    from tvm_ios import compile_schedule  # noqa: PLC0415
    from tvm_ios.compile.built_model import build_model  # noqa: PLC0415
    from tvm_ios.experiments.stock_contestants import STOCK_ONE, race_with_stock  # noqa: PLC0415
    from tvm_ios.host import host_target  # noqa: PLC0415
    from tvm_ios.measure.compare import CompareOptions  # noqa: PLC0415

    found = {}
    for shape in SHAPES:
        value = data = relay.var("data", shape=shape, dtype="float32")
        for position in range(OPERATORS):
            operator = relay.nn.relu if position % 2 else relay.negative
            value = relay.annotation.stop_fusion(operator(value))
        mod = tvm.IRModule.from_expr(relay.Function([data], value))
        comparison = race_with_stock(
            build_model(mod, {}, host_target(), name="chain", sink=False),
            {f"ours, lanes: {count}": compile_schedule(mod, lanes=count) for count in (1, lanes)},
            lanes=lanes,
            options=CompareOptions(rounds=ROUNDS),
        )
        found["x".join(map(str, shape))] = _facts_of(comparison, STOCK_ONE)
    result = {
        "command": "python -m benchmarks.tiny_chain",
        "operators": OPERATORS,
        "machine": machine_facts(),
        "versions": version_facts(),
        "shapes": found,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for shape, facts in found.items():
        print(shape, json.dumps(facts["ns a launch"]), *facts["ratios"], sep="\n  ")


def _facts_of(comparison: Comparison, base: str) -> dict[str, Any]:
    names = comparison.names
    return {
        "ns a launch": {name: round(comparison.median_ns(name) / OPERATORS, 1) for name in names},
        "ratios": [comparison.speedup(name, over=base).as_text() for name in names if name != base],
        "names": names,
        "rounds us": [[round(ns / 1e3, 2) for ns in row.run_ns] for row in comparison.rounds],
    }


if __name__ == "__main__":
    main()
