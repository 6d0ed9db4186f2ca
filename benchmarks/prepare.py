"""Compares preparing networks without the text of layouts with preparing them as TVM does.

``python -m benchmarks.prepare NETWORK…`` times :func:`tvm_ios.relay.prepare` of each network both
ways in interleaved rounds. The rounds and the result go to ``benchmarks/results/prepare/``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from tvm_ios.cli.measuring import prepare_process

FOLDER = Path(__file__).parent / "results" / "prepare"


def main() -> None:
    """Time, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    prepare_process(None)
    # TVM reads the number of threads when it is loaded.
    from tvm_ios.host import host_target, processor_name  # noqa: PLC0415
    from tvm_ios.measure.compare import CompareOptions, compare  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.relay import prepare  # noqa: PLC0415

    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in arguments.networks:
        network = by_name(name)()

        def timed(number: int, network: tuple = network) -> int:
            begin = time.perf_counter_ns()
            for _ in range(number):
                prepare(*network, host_target())
            return time.perf_counter_ns() - begin

        def with_text(number: int, timed: Callable[[int], int] = timed) -> int:
            with patch("tvm_ios.relay.transforms.pipeline.without_layout_text", nullcontext):
                return timed(number)

        options = CompareOptions(rounds=arguments.rounds, warmup=0, min_repeat_ms=0)
        found = compare({"with text": with_text, "without": timed}, options=options)
        speedup = found.speedup("without", over="with text")
        print(f"{name}: {found.median_ns('with text') / 1e9:.2f} s, {speedup.as_text()}")
        record = {
            "command": f"python -m benchmarks.prepare {name} --rounds {arguments.rounds}",
            "processor": processor_name(),
            "taken_at": time.strftime("%Y-%m-%d"),
            "names": found.names,
            "rounds_ns": [round_.run_ns for round_ in found.rounds],
            "times_as_fast": [speedup.ratio, speedup.low, speedup.high],
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
