"""The table of an evaluation: ratios of one run each, geometric means, goals, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean

from tvm_ios.report.table import Table
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.gpu.agenda import Kernels, Step, Work
from tvm_ios_lab.gpu.ledger import Ledger
from tvm_ios_lab.gpu.machine import Machine
from tvm_ios_lab.gpu.names import GREEDY, IOS, PEERS, SCHEDULES, SEQUENTIAL, STREAMS
from tvm_ios_lab.gpu.results import Result, goals, results
from tvm_ios_lab.gpu.settings import MAIN_NETWORKS, Settings
from tvm_ios_lab.harness.ledger import Status

__all__ = ["report"]

_NONE = "-"


def report(folder: Path, settings: Settings) -> str:
    """Everything a reader needs, in Markdown."""
    found = results(folder, settings.cases)
    lines = ["# GPU evaluation", ""]
    if settings.quick:
        lines += ["Smallest networks and shortest measurements: these numbers mean nothing.", ""]
    lines += [*_about(folder), ""]
    if found:
        lines += [_ratios(found).as_markdown(), "", _details(found).as_markdown(), ""]
    else:
        lines += ["Nothing is measured yet.", ""]
    lines += ["## Goals", "", *(f"- {goal.as_text()}" for goal in goals(found)), ""]
    return "\n".join([*lines, *_steps(folder, settings.steps), *_notes(found)])


def _about(folder: Path) -> list[str]:
    machine = Machine.read(folder)
    facts = {**machine.facts, **machine.versions}
    for path in sorted((folder / "results").glob("*.json"))[:1]:
        record = BenchmarkRecord.from_json(path.read_text())
        facts |= {name: each for name, each in record.versions.items() if name not in facts}
    return [
        f"- {machine.target}; " + "; ".join(f"{name} {value}" for name, value in facts.items()),
        "- Ratios are medians over the rounds of one interleaved run; CUDA graphs on both sides "
        f"unless a column says {STREAMS}. float32 without TF32.",
    ]


def _ratios(found: Sequence[Result]) -> Table:
    header = (
        *("network", "batch", "kernels", "sequential ms", f"{IOS} ms"),
        *(f"{who} / sequential" for who in SCHEDULES[1:]),
        *(f"{IOS} / greedy", f"{IOS} / sequential, {STREAMS}"),
        *(f"{IOS} / {peer}" for peer in PEERS),
    )
    rows = [
        (
            result.case.network,
            str(result.case.batch_size),
            result.kernels.value,
            *(_number(result.median_ms(who)) for who in (SEQUENTIAL, IOS)),
            *map(_number, _row(result)),
        )
        for result in found
    ]
    for kernels in Kernels:
        main = [
            _row(result)
            for result in found
            if result.kernels is kernels
            and result.case.network in MAIN_NETWORKS
            and result.case.batch_size == 1
        ]
        if main:
            means = [_mean(column, len(main)) for column in zip(*main, strict=True)]
            name = f"geomean of {len(main)} of the four"
            rows.append((name, "1", kernels.value, _NONE, _NONE, *means))
    return Table(header=header, rows=tuple(rows))


def _row(result: Result) -> list[float | None]:
    return [
        *(result.ratio(who, SEQUENTIAL) for who in SCHEDULES[1:]),
        result.ratio(IOS, GREEDY),
        result.ratio(IOS, SEQUENTIAL, STREAMS),
        *(result.ratio(IOS, peer) for peer in PEERS),
    ]


def _details(found: Sequence[Result]) -> Table:
    """Stage counts and what the search cost."""
    names = ("stages measured", "stages known", "pricing s", "device s")
    counts = (*(f"stages of {who}" for who in SCHEDULES), f"merged in {IOS}", f"widest of {IOS}")
    rows = []
    for result in found:
        about = result.kernels.value
        keys = [f"{about} {name.replace(' ', '_')}" for name in (*counts, *names)]
        cells = (result.record.facts.get(key, _NONE) for key in keys)
        rows.append((result.case.network, str(result.case.batch_size), about, *cells))
    header = ("network", "batch", "kernels", *counts, *names)
    return Table(header=header, rows=tuple(rows))


def _steps(folder: Path, steps: Sequence[Step]) -> Iterator[str]:
    """Largest errors, and every step that was not done."""
    ledger = Ledger(folder)
    lost = ledger.lost(steps)
    outcomes = {step: ledger.outcome(step.name) for step in steps}
    yield "## Outputs against float64"
    yield ""
    proofs = [
        (step, outcome)
        for step, outcome in outcomes.items()
        if step.work is Work.OUTPUTS and outcome is not None and outcome.status is Status.DONE
    ]
    for step, outcome in proofs:
        data = outcome.data
        wrong = f"; WRONG: {_some(data['wrong'])}" if data["wrong"] else ""
        bits = f"NOT EQUAL to streams: {_some(data['unequal'])}" if data["unequal"] else "equal"
        yield (
            f"- {step.name}: largest relative error {data['largest_error']:.2g} of "
            f"{len(data['errors'])} contestants{wrong}; bits of graphs: {bits}"
        )
    if not proofs:
        yield "Nothing is proved yet."
    done = sum(each is not None and each.status is Status.DONE for each in outcomes.values())
    yield ""
    yield f"## Steps: {done} of {len(steps)} done"
    yield ""
    for step, ended in outcomes.items():
        if ended is None:
            needs = lost.get(step.name)
            yield f"- {step.name}: " + (
                f"cannot be done without {needs[0]}" if needs else "not begun"
            )
        elif ended.status is not Status.DONE:
            yield f"- {step.name}: {ended.status.value}: {ended.reason}"
    yield ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def _notes(found: Sequence[Result]) -> Iterator[str]:
    notes = {
        f"- {result.case.name}: {note}": None for result in found for note in result.record.notes
    }
    if notes:
        yield "## Notes"
        yield ""
        yield from notes
        yield ""


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _mean(column: Sequence[float | None], count: int) -> str:
    known = [value for value in column if value is not None]
    return _number(geometric_mean(known)) if len(known) == count else _NONE
