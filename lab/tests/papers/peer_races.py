"""Races with other frameworks that took place on paper only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.harness.peers import Raced

__all__ = ["raced_peers"]


def raced_peers(
    peers: Mapping[str, float],
    ours: Mapping[str, float],
    left_out: Sequence[str] = (),
    more_facts: Mapping[str, str] = {},
) -> Raced:
    """A race whose rounds are all alike: milliseconds by contestant.

    ``ours`` are named as races name them: ``tvm-ios KERNELS SCHEDULE, N threads``.
    """
    ms = {**peers, **ours}
    facts = {
        f"{what} of {name}": value
        for name in ours
        for build in [name.removeprefix("tvm-ios ").rpartition(", ")[0]]
        for what, value in zip(("kernels", "schedule"), build.split(" ", 1), strict=True)
    }
    once = CompareRound(run_ns=tuple(1e6 * v for v in ms.values()), ping_pong_ns=9.0, slow=False)
    record = BenchmarkRecord(
        network="dcgan",
        batch_size=1,
        target="t",
        lanes=2,
        command="c",
        machine={},
        versions={},
        taken_at="2026-01-01",
        comparison=Comparison(names=tuple(ms), rounds=(once,) * 6, confidence=0.95, notes=()),
        facts={**facts, **more_facts},
    )
    return Raced(record=record, left_out=tuple(left_out))
