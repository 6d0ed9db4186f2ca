"""What a launch costs beside stock TVM's: ``python -m benchmarks.tiny_chain``.

A chain of operators of 16 elements each, by TVM's graph executor and by ours in sequential order,
interleaved in one process. Medians, ratios and all rounds go to
``benchmarks/results/tiny_chain.json``.
"""

from __future__ import annotations

import json
from pathlib import Path

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.host.machine import machine_facts, version_facts

RESULT = Path(__file__).parent / "results" / "tiny_chain.json"
OPERATORS = 201
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

    value = data = relay.var("data", shape=(1, 16), dtype="float32")
    for position in range(OPERATORS):
        operator = relay.nn.relu if position % 2 else relay.negative
        value = relay.annotation.stop_fusion(operator(value))
    mod = tvm.IRModule.from_expr(relay.Function([data], value))
    comparison = race_with_stock(
        build_model(mod, {}, host_target(), name="chain", sink=False),
        {f"ours, lanes: {count}": compile_schedule(mod, lanes=count) for count in {1, lanes}},
        lanes=lanes,
        options=CompareOptions(rounds=ROUNDS),
    )
    result = {
        "command": "python -m benchmarks.tiny_chain",
        "operators": OPERATORS,
        "ns a launch": {
            name: round(comparison.median_ns(name) / OPERATORS, 1) for name in comparison.names
        },
        "ratios": [
            comparison.speedup(name, over=STOCK_ONE).as_text()
            for name in comparison.names
            if name != STOCK_ONE
        ],
        "machine": dict(machine_facts()),
        "versions": dict(version_facts()),
        "names": comparison.names,
        "rounds us": [[round(ns / 1e3, 2) for ns in row.run_ns] for row in comparison.rounds],
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["ns a launch"], indent=1), *comparison.notes, sep="\n")


if __name__ == "__main__":
    main()
