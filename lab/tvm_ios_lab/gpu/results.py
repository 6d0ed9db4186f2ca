"""Stored results, read back: ratios of one interleaved run each, and goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.gpu.agenda import Case, Kernels
from tvm_ios_lab.gpu.names import (
    AUTOTUNED,
    GRAPH,
    GREEDY,
    IOS,
    PEERS,
    SEQUENTIAL,
    our_name,
)
from tvm_ios_lab.gpu.settings import MAIN_NETWORKS

__all__ = ["Goal", "Result", "goals", "results"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one network on one kind of kernels, of one interleaved run."""

    case: Case
    kernels: Kernels
    record: BenchmarkRecord

    def ratio(self, who: str, over: str, way: str = GRAPH) -> float | None:
        """Speedup of a schedule over another one, or over a peer."""
        names = self.record.comparison.names
        ours = our_name(self.kernels, who, way)
        other = over if over in PEERS else our_name(self.kernels, over, way)
        if ours not in names or other not in names:
            return None
        return self.record.comparison.speedup(ours, over=other).ratio

    def median_ms(self, who: str) -> float | None:
        """Milliseconds of a schedule as a CUDA graph."""
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
        """Line of text; a goal is met only by all four networks."""
        if self.found is None:
            return f"not measured: {self.text}"
        whole = self.networks == len(MAIN_NETWORKS)
        met = "met" if self.found >= self.least and whole else "NOT MET"
        some = "" if whole else f" over {self.networks} of {len(MAIN_NETWORKS)} networks"
        short = "" if self.found >= self.least else f", short by {self.least - self.found:.3f}"
        return f"{met}: {self.text}: {self.found:.3f}{some}{short}"


def results(folder: Path, cases: Sequence[Case]) -> list[Result]:
    """Result of the run that compares most kernels, for every case."""
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
            for other in (SEQUENTIAL, GREEDY, AUTOTUNED)
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
            text = f"{name} over {AUTOTUNED}, geomean of at least 1.2"
            rows.append(_geomean(text, 1.2, over[AUTOTUNED]))
    return rows


def _geomean(text: str, least: float, ratios: Sequence[float]) -> Goal:
    mean = geometric_mean(ratios) if ratios else None
    return Goal(text=text, least=least, found=mean, networks=len(ratios))
