"""Tuned kernels, schedules between them, and both: the paper's comparison with AutoTVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.table import Table
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.checkout import StoredRaceCell, stored_record
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of

__all__ = ["CORNERS", "PUBLISHED_MS", "Corners", "IntraInter"]

CORNERS = ("untuned sequential", "tuned sequential", "untuned IOS", "tuned IOS")
"""Neither, kernels tuned, scheduled, both; as ``tvm-ios bench --tuning`` calls them."""
NETWORKS = (
    "nasnet_small",
    "randwire_small",
    "nasnet_small_c44",
    "squeezenet",
    "inception_v3",
    "randwire",
    "nasnet_large",
)
PUBLISHED_MS = {
    "inception_v3": (4.95, 4.03),
    "randwire": (5.26, 6.02),
    "nasnet_large": (14.67, 16.04),
    "squeezenet": (0.75, 0.73),
}
"""Milliseconds on the V100: TVM tuned by AutoTVM in order, and IOS on kernels of cuDNN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corners:
    """The four corners, all of one interleaved race."""

    ms: tuple[float, ...]
    """Milliseconds by corner of :data:`CORNERS`."""
    speedups: tuple[float, ...]
    """Times as fast as the first corner: medians of the rounds' ratios."""
    measured_by: str
    """Command of the race."""
    measured_at: str
    record: str
    """The file with all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntraInter:
    """Intra-operator against inter-operator parallelism."""

    name: str = "intra-inter"
    title: str = "Tuned kernels, IOS, and both"
    published: str = (
        "README of the published code, section 4.2.7: V100, batch 1. AutoTVM took 208 GPU hours "
        "for the four networks, IOS 3; both at once were left as future work there."
    )
    notes: tuple[str, ...] = (
        "Read from stored races of `tvm-ios bench --tuning autotvm` on this project's two-core "
        "machine; lab/README.md has all of them. With two cores most of what IOS can win "
        "lies in small operators; tuned kernels leave less of it.",
        "Kernels that were tuned on one core suit sequential order and IOS alike; to tune them on "
        "both cores made networks slower (0.97 and 0.90 times).",
    )
    found_kind: type[Corners] = Corners

    def cells(self, _: Settings) -> tuple[StoredRaceCell, ...]:
        """The networks that were tuned."""
        return tuple(StoredRaceCell.of(name, _path(name)) for name in NETWORKS)

    def measure(self, cell: StoredRaceCell, _: Bench) -> Corners:
        """Read the stored race."""
        path = _path(cell.network)
        record = stored_record(
            path, command=f"tvm-ios bench --tuning autotvm --networks {cell.network}"
        )
        race = record.comparison
        return Corners(
            ms=tuple(race.median_ns(corner) / 1e6 for corner in CORNERS),
            speedups=tuple(race.speedup(each, over=CORNERS[0]).ratio for each in CORNERS),
            measured_by=record.command,
            measured_at=record.taken_at,
            record=path,
        )

    def table(self, outcomes: Sequence[Outcome[StoredRaceCell, Corners]]) -> Table:
        """A row for each network."""
        header = (
            "network",
            *(f"{corner} ms" for corner in CORNERS),
            "tuned",
            "IOS",
            "both",
            "measured",
            "published AutoTVM ms (V100)",
            "published IOS ms (V100)",
        )
        return table_of(header, outcomes, _rows)

    def panels(self, outcomes: Sequence[Outcome[StoredRaceCell, Corners]]) -> tuple[Panel, ...]:
        """Bars of what each brings over neither."""
        here = [(each.cell.network, each.found) for each in outcomes if each.found is not None]
        if not here:
            return ()
        return (
            Bars(
                title="Times as fast as untuned kernels in order (this CPU)",
                y_label="speedup",
                groups=tuple(name.replace("_", "\n") for name, _ in here),
                series=tuple(
                    Series(name=name, values=tuple(each.speedups[place] for _, each in here))
                    for place, name in enumerate(("neither", "tuned", "IOS", "both"))
                ),
            ),
        )


def _path(network: str) -> str:
    return f"lab/results/tuned/{network}_bs1.autotvm.json"


def _rows(cell: StoredRaceCell, found: Corners) -> list[tuple[str, ...]]:
    told = PUBLISHED_MS.get(cell.network)
    return [
        (
            cell.network,
            *(f"{ms:.3f}" for ms in found.ms),
            *(f"{ratio:.3f}" for ratio in found.speedups[1:]),
            found.measured_at[:10],
            *(("-", "-") if told is None else (f"{ms:.2f}" for ms in told)),
        )
    ]
