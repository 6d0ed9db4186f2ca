"""The analytical GPU model held against the measurements the published IOS system reports.

Run from the root of a checkout; needs neither TVM nor a GPU, and takes about a minute:

    python benchmarks/gpu_model.py            # the table of docs/gpu-model.md
    python benchmarks/gpu_model.py --json     # the same with all numbers

The published numbers are those of its README, for a V100 SXM2 at 1530 MHz with cuDNN 7, float32.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.cost.problem import RecordedPart, parse_problem
from tvm_ios.experiments.harness.published_system import SCHEDULERS, SYSTEMS
from tvm_ios.measure.agreement import Agreement, mean_error
from tvm_ios.report.table import Table

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One network at one batch size, and what was published of it."""

    name: str
    path: str
    published_ms: tuple[float, ...]
    """By scheduler of :data:`SCHEDULERS`, or of sequential and IOS-both alone."""
    batch_size: int = 1


CASES = (
    Case(
        name="Inception V3",
        path="tests/golden/inception_v3_bs1.json",
        published_ms=(6.51, 4.62, 5.39, 4.11, 4.03),
    ),
    Case(
        name="RandWire",
        path="tests/golden/randwire_bs1.json",
        published_ms=(8.49, 6.27, 8.54, 6.02, 6.02),
    ),
    Case(
        name="NasNet-A",
        path="benchmarks/problems/nasnet_large_bs1.json",
        published_ms=(22.95, 16.78, 22.94, 16.04, 16.04),
    ),
    Case(
        name="SqueezeNet",
        path="tests/golden/squeezenet_bs1.json",
        published_ms=(0.86, 0.98, 0.74, 0.82, 0.73),
    ),
)
BATCHES = tuple(
    Case(
        name="Inception V3",
        path="tests/golden/inception_v3_bs1.json",
        published_ms=published_ms,
        batch_size=batch_size,
    )
    for batch_size, published_ms in (
        (1, (6.20, 3.94)),
        (16, (17.95, 15.17)),
        (32, (30.54, 27.00)),
        (64, (55.67, 51.11)),
        (128, (108.55, 102.74)),
    )
)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    rows = [(case, modelled_ms(case)) for case in (*CASES, *BATCHES)]
    if arguments.json:
        print(json.dumps([_record(case, model_ms) for case, model_ms in rows], indent=1))
        return
    names = tuple(SCHEDULERS)
    print(_table(rows[: len(CASES)], names).as_markdown())
    print()
    batches = [(case, (model_ms[0], model_ms[-1])) for case, model_ms in rows[len(CASES) :]]
    print(_table(batches, (names[0], names[-1])).as_markdown())
    print()
    agreements = [agreement(case, model_ms) for case, model_ms in rows[: len(CASES)]]
    print(f"batch 1: speedups are off by {mean_error(agreements):.1%} in the geometric mean")
    for each in agreements:
        right, pairs = each.order()
        print(f"{each.subject}: {right} of {pairs} pairs of schedules are ordered as published")


def agreement(case: Case, model_ms: Sequence[float]) -> Agreement:
    """The model's five schedules held against the published ones."""
    return Agreement(
        subject=case.name,
        observed_ms=dict(zip(SCHEDULERS, case.published_ms, strict=True)),
        model_ms=dict(zip(SCHEDULERS, model_ms, strict=True)),
    )


def modelled_ms(case: Case) -> tuple[float, ...]:
    """Milliseconds by scheduler, on the published runtime."""
    problem = parse_problem((ROOT / case.path).read_text(encoding="utf-8"))
    totals = [0] * len(SCHEDULERS)
    known: dict[str, list[int]] = {}
    for part in problem.parts:
        key = part.graph.fingerprint()
        if key not in known:
            known[key] = _part_ns(part, case.batch_size)
        totals = [total + more for total, more in zip(totals, known[key], strict=True)]
    return tuple(total / 1e6 for total in totals)


def _part_ns(part: RecordedPart, batch_size: int) -> list[int]:
    system = SYSTEMS["V100"]
    model = system.model(part, batch_size)
    return [
        system.run_ns(part, model, system.schedule(part, model, scheduler))
        for scheduler in SCHEDULERS
    ]


def _table(rows: Sequence[tuple[Case, Sequence[float]]], schedulers: Sequence[str]) -> Table:
    header = ["network, batch", "", *(f"{name} ms" for name in schedulers)]
    header += [f"{name} speedup" for name in schedulers[1:]]
    cells = []
    for case, model_ms in rows:
        for who, values in (("published", case.published_ms), ("model", model_ms)):
            speedups = [f"{values[0] / value:.2f}" for value in values[1:]]
            name = f"{case.name}, {case.batch_size}"
            cells.append((name, who, *(f"{value:.2f}" for value in values), *speedups))
        told = case.published_ms
        errors = [
            f"{model_ms[0] / ours / (told[0] / theirs) - 1:+.0%}"
            for ours, theirs in zip(model_ms[1:], told[1:], strict=True)
        ]
        cells.append((name, "error", *("",) * len(schedulers), *errors))
    return Table(header=tuple(header), rows=tuple(cells))


def _record(case: Case, model_ms: Sequence[float]) -> dict[str, object]:
    return {
        "network": case.name,
        "batch_size": case.batch_size,
        "published_ms": list(case.published_ms),
        "model_ms": dict(zip(SCHEDULERS, model_ms, strict=True)),
    }


if __name__ == "__main__":
    main()
