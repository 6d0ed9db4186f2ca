"""Standing on each network, from what ``measure`` stored: our best against the best peer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.peers.record import FLOOR_MS, IN_TURN, KERNELS, PRECISION, SCHEDULE

__all__ = ["Standing", "standing_of", "summary_json"]

_SEQUENTIAL = "sequential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Our fastest build against the fastest peer, medians of one interleaved run."""

    network: str
    batch: int
    ours: str
    """Contestant with the least median of ours."""
    ours_ms: float
    best_peer: str
    best_peer_ms: float
    ratio: float
    """Median over the rounds of: time of the peer by ours; above 1 where we are faster."""
    interval: tuple[float, float]
    """Confidence interval of that median, by order statistics, as the record says how sure."""
    sequential_ms: float | None
    """The kernels of :attr:`ours` one after the other; None where that was not measured."""
    floor_ms: float


def standing_of(
    record: BenchmarkRecord, kernels: str = "", precision: str = FLOAT32
) -> Standing | None:
    """Standing of a record; None where none of ours or no peer took part.

    Parameters
    ----------
    record
        Record of one interleaved run.
    kernels
        The set of kernels whose builds count as ours; all of them where omitted.
    precision
        Lowest precision that both may compute in; others take no part.
    """
    facts, comparison = record.facts, record.comparison
    names = [
        name
        for name in comparison.names
        if facts.get(f"{PRECISION} {name}", FLOAT32) == precision  # records from before have none
    ]
    every = [name for name in names if f"{SCHEDULE} {name}" in facts]
    peers = [name for name in names if name not in every]
    joint = [name for name in every if facts[f"{KERNELS} {name}"] != IN_TURN]
    ours = [name for name in joint if kernels in ("", facts[f"{KERNELS} {name}"])]
    if not ours or not peers:
        return None
    best, best_peer = (min(some, key=comparison.median_ns) for some in (ours, peers))
    speedup = comparison.speedup(best, over=best_peer)
    sequential = next(
        (
            name
            for name in ours
            if facts[f"{SCHEDULE} {name}"] == _SEQUENTIAL
            and facts[f"{KERNELS} {name}"] == facts[f"{KERNELS} {best}"]
        ),
        None,
    )
    return Standing(
        network=record.network,
        batch=record.batch_size,
        ours=best,
        ours_ms=comparison.median_ns(best) / 1e6,
        best_peer=best_peer,
        best_peer_ms=comparison.median_ns(best_peer) / 1e6,
        ratio=speedup.ratio,
        interval=(speedup.low, speedup.high),
        sequential_ms=None if sequential is None else comparison.median_ns(sequential) / 1e6,
        floor_ms=float(facts[FLOOR_MS]),
    )


def summary_json(records: Iterable[BenchmarkRecord]) -> str:
    """A list with one object for each record that has us, fields as in :class:`Standing`."""
    found = [standing for record in records if (standing := standing_of(record)) is not None]
    return json.dumps([asdict(standing) for standing in found], indent=1)
