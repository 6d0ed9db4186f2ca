"""A cache folder of its own in which results are kept, and a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.driver.kept.store import KeptResult, KeptResults
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.plan.image import PLAN_VERSION
from tvm_ios.report.tune_report import TuneReport
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.artifact.footer import append_footer
from tvm_ios.runtime.artifact.identity import ArtifactIdentity
from tvm_ios.runtime.artifact.new_artifact import new_artifact
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.result import SearchResult

IDENTITY = ArtifactIdentity(
    plan_version=PLAN_VERSION,
    tvm_version="0.17.0",
    target="llvm",
    architecture="x86_64",
    processor_model="vendor_id A",
    features=(),
    lanes=2,
)


@pytest.fixture(autouse=True)
def kept_folder(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept results, empty."""
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    return KeptResults().folder


@pytest.fixture
def make_result() -> Callable[..., KeptResult]:
    """Makes a result of a network of one operator, with other fields where they are given."""

    def make(**fields: Any) -> KeptResult:
        usual = {"report": _report(), "notes": (), "certain": True, "time_budget": None}
        return KeptResult(**usual | fields)

    return make


def export(content: bytes) -> Callable[[Path], None]:
    """Writes an exported file with some bytes as its code."""

    def write(path: Path) -> None:
        with new_artifact(path) as library:
            library.write_bytes(content)
            append_footer(library, IDENTITY)

    return write


def _report() -> TuneReport:
    graph = OperatorGraph("net", (op("stem"),))
    schedule = sequential_schedule(graph)
    rounds = tuple(CompareRound(run_ns=(1e6 + i,), ping_pong_ns=50.0, slow=False) for i in range(7))
    return TuneReport(
        story=ModelStory(
            graph=graph,
            schedule_json=schedule.to_json(),
            report="",
            machine={},
            versions={},
            evidence=Evidence(
                kept="sequential",
                reason="nothing is faster",
                race=Comparison(names=("sequential",), rounds=rounds, confidence=0.95, notes=()),
                lanes=2,
                phase_s={"build": 1.25},
            ),
        ),
        search=SearchResult(
            schedule=schedule, latency_ns=9, sequential_ns=9, blocks=(), seconds=0.5
        ),
        coverage="1 of 1 operators scheduled",
        measured=1,
        from_database=0,
        arena_bytes=64,
        sequential_arena_bytes=64,
        notes=(),
    )
