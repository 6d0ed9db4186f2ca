"""The table of an evaluation: ratios of one run each, geometric means, goals, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from benchmarks.gpu_evaluation.agenda import Case, Kernels, Step, Work
from benchmarks.gpu_evaluation.ledger import Ledger, Status
from benchmarks.gpu_evaluation.machine import Machine
from benchmarks.gpu_evaluation.names import (
    COMPILED,
    EAGER,
    GRAPH,
    GREEDY,
    IOS,
    SCHEDULES,
    SEQUENTIAL,
    STREAMS,
    TORCH_GRAPH,
    TVM,
    TVM_GRAPH,
    our_name,
)
from benchmarks.gpu_evaluation.settings import MAIN_NETWORKS, Settings
from tvm_ios.report.records import BenchmarkRecord
from tvm_ios.report.table import Table

__all__ = ["Goal", "goals", "report", "results"]

_NONE = "-"
_PEERS = (TVM, TVM_GRAPH, EAGER, TORCH_GRAPH, COMPILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One network on one kind of kernels, of one interleaved run."""

    case: Case
    kernels: Kernels
    record: BenchmarkRecord

    def ratio(self, who: str, over: str, way: str = GRAPH) -> float | None:
        """How many times as fast a schedule is as another one, or as a peer."""
        names = self.record.comparison.names
        ours = our_name(self.kernels, who, way)
        other = over if over in _PEERS else our_name(self.kernels, over, way)
        if ours not in names or other not in names:
            return None
        return self.record.comparison.speedup(ours, over=other).ratio

    def median_ms(self, who: str) -> float | None:
        """Of a schedule as a CUDA graph."""
        name = our_name(self.kernels, who, GRAPH)
        if name not in self.record.comparison.names:
            return None
        return self.record.comparison.median_ns(name) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A number that was aimed at, and what became of it."""

    text: str
    least: float
    found: float | None
    networks: int
    """So many of the four have a result."""

    def as_text(self) -> str:
        """One line; a goal is met only by all four networks."""
        if self.found is None:
            return f"not measured: {self.text}"
        whole = self.networks == len(MAIN_NETWORKS)
        met = "met" if self.found >= self.least and whole else "NOT MET"
        some = "" if whole else f" over {self.networks} of {len(MAIN_NETWORKS)} networks"
        short = "" if self.found >= self.least else f", short by {self.least - self.found:.3f}"
        return f"{met}: {self.text}: {self.found:.3f}{some}{short}"


def results(folder: Path, cases: Sequence[Case]) -> list[Result]:
    """Of every case the run that compares most kernels."""
    found = []
    for case in cases:
        records = [
            BenchmarkRecord.from_json(path.read_text())
            for path in sorted((folder / "results").glob(f"{case.name}.*.json"))
        ]
        if records:
            record = max(records, key=lambda each: len(each.comparison.names))
            found += [
                Result(case=case, kernels=kernels, record=record)
                for kernels in Kernels
                if any(name.startswith(f"{kernels.value} ") for name in record.comparison.names)
            ]
    return found


def goals(found: Sequence[Result]) -> list[Goal]:
    """The goals, on each kind of kernels; both sides of a ratio are CUDA graphs."""
    rows = []
    for kernels in Kernels:
        main = [
            result
            for result in found
            if result.kernels is kernels
            and result.case.network in MAIN_NETWORKS
            and result.case.batch_size == 1
        ]
        over = {
            other: [ratio for result in main if (ratio := result.ratio(IOS, other)) is not None]
            for other in (SEQUENTIAL, GREEDY, COMPILED)
        }
        name = f"{kernels.value} kernels, {IOS}"
        rows += [
            _geomean(f"{name} over sequential, geomean of at least 1.5", 1.5, over[SEQUENTIAL]),
            _geomean(f"{name} over greedy, geomean of at least 1.15", 1.15, over[GREEDY]),
            Goal(
                text=f"{name} over sequential, no network under 1.00",
                least=1.0,
                found=min(over[SEQUENTIAL], default=None),
                networks=len(over[SEQUENTIAL]),
            ),
        ]
        if kernels is Kernels.TUNED:
            text = f"{name} over {COMPILED}, geomean of at least 1.2"
            rows.append(_geomean(text, 1.2, over[COMPILED]))
    return rows


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


def _geomean(text: str, least: float, ratios: Sequence[float]) -> Goal:
    mean = geometric_mean(ratios) if ratios else None
    return Goal(text=text, least=least, found=mean, networks=len(ratios))


def _about(folder: Path) -> list[str]:
    machine = Machine.read(folder)
    facts = [*machine.facts.items(), *machine.versions.items()]
    for path in sorted((folder / "results").glob("*.json"))[:1]:
        record = BenchmarkRecord.from_json(path.read_text())
        known = {name for name, _ in facts}
        facts += [(each.name, each.value) for each in record.versions if each.name not in known]
    return [
        f"- {machine.target}; " + "; ".join(f"{name} {value}" for name, value in facts),
        "- Ratios are medians over the rounds of one interleaved run; CUDA graphs on both sides "
        f"unless a column says {STREAMS}. float32 without TF32.",
    ]


def _ratios(found: Sequence[Result]) -> Table:
    header = ("network", "batch", "kernels", "sequential ms", f"{IOS} ms")
    header += tuple(f"{who} / sequential" for who in SCHEDULES[1:])
    header += (f"{IOS} / greedy", f"{IOS} / sequential, {STREAMS}")
    header += tuple(f"{IOS} / {peer}" for peer in _PEERS)
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
        *(result.ratio(IOS, peer) for peer in _PEERS),
    ]


def _details(found: Sequence[Result]) -> Table:
    """Stage counts and what the search cost."""
    names = ("stages measured", "stages known", "pricing s", "device s")
    counts = (*(f"stages of {who}" for who in SCHEDULES), f"merged in {IOS}", f"widest of {IOS}")
    rows = []
    for result in found:
        facts = {fact.name: fact.value for fact in result.record.facts}
        about = result.kernels.value
        keys = [f"{about} {name.replace(' ', '_')}" for name in (*counts, *names)]
        cells = (facts.get(key, _NONE) for key in keys)
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
    for step, outcome in outcomes.items():
        if outcome is None:
            needs = lost.get(step.name)
            yield f"- {step.name}: " + (
                f"cannot be done without {needs[0]}" if needs else "not begun"
            )
        elif outcome.status is not Status.DONE:
            yield f"- {step.name}: {outcome.status.value}: {outcome.reason}"
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
