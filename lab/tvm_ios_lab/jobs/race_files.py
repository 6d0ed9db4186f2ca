"""Exported models of one network, raced in one process: what a change of ours did to it.

``python -m tvm_ios_lab.jobs.race_files before=A.so after=B.so --out FILE`` times them interleaved
on all lanes, on the same inputs, and writes medians, ratios over the first one, and all rounds.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tvm_ios.cli.measuring import prepare_process


def main() -> None:
    """Load, race, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    prepare_process(None)
    # TVM reads the number of threads when it is loaded.
    import tvm_ios  # noqa: PLC0415
    from tvm_ios.measure.compare import CompareOptions, compare  # noqa: PLC0415
    from tvm_ios.runtime.base.sample_inputs import sample_inputs  # noqa: PLC0415

    with ExitStack() as stack:
        models: dict[str, Any] = {}
        for named in options.files:
            name, _, path = named.partition("=")
            models[name] = stack.enter_context(tvm_ios.load(path))
            # Parameters lie in the file; TVM calls them p0, p1 and so on.
            params = {
                entry.name: None
                for entry in models[name].plan.inputs
                if entry.name[:1] == "p" and entry.name[1:].isdigit()
            }
            for key, value in sample_inputs(models[name].plan, params).items():
                models[name].set_input(key, value)
        base, *others = models
        comparison = compare(
            {name: model.time_ns for name, model in models.items()},
            options=CompareOptions(rounds=options.rounds),
            ping_pong_ns=models[base].ping_pong_ns,
        )
    lines = [
        shlex.join(("python", "-m", "tvm_ios_lab.jobs.race_files", *sys.argv[1:])),
        *(f"{name}: {comparison.median_ns(name) / 1e6:.3f} ms" for name in models),
        *(comparison.speedup(name, over=base).as_text() for name in others),
        *comparison.notes,
        *(
            " ".join("-" if run_ns is None else f"{run_ns / 1e6:.3f}" for run_ns in row.run_ns)
            + f" ping-pong {row.ping_pong_ns:.0f}{' slow' if row.slow else ''}"
            for row in comparison.rounds
        ),
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[: 1 + len(models) + len(others)]))


if __name__ == "__main__":
    main()
