"""Other frameworks against IOS: the paper's on a V100, and those of this CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.report.table import Table
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.checkout import StoredRaceCell, stored_record
from tvm_ios_lab.harness.peers import ALL_PEERS, TORCH, Raced
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.places import ROOT

__all__ = ["OURS", "PEERS", "PUBLISHED_MS", "Frameworks", "RacedPeers"]

PEERS = {
    "PyTorch": TORCH[:2],
    "torch.compile": TORCH[2:],
    "onnxruntime": ("onnxruntime",),
    "OpenVINO": ("openvino",),
}
"""The ways to run each, as races name them."""
SEQUENTIAL, OURS = "tvm-ios sequential", "tvm-ios"
RACES = "lab/results/peers"
PUBLISHED = ("TensorFlow", "TensorFlow-XLA", "TASO", "TVM-cuDNN", "TensorRT", "IOS")
PUBLISHED_MS = {
    "inception_v3": (7.95, 9.95, 5.70, 4.88, 5.21, 4.03),
    "randwire": (12.06, 16.61, 8.42, 6.86, 8.33, 6.02),
    "nasnet_large": (24.73, 34.66, 21.29, 26.87, 24.66, 16.04),
    "squeezenet": (2.63, 4.08, 0.82, 0.90, 0.80, 0.73),
}
"""Milliseconds on the V100, by framework of :data:`PUBLISHED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RacedPeers:
    """The peers and us, all of one interleaved race."""

    ms: Mapping[str, float]
    """Milliseconds of each peer with its better number of threads, of sequential order and our
    best."""
    best: str
    """Name of our best; empty where none of ours took part."""
    over_peer: tuple[float, float, float] | None
    """Speedup of ours over the best peer, and its interval."""
    measured_by: str
    """Command of the race."""
    measured_at: str
    record: str
    """The file with all rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frameworks:
    """The paper's first figure, with the frameworks of this CPU."""

    name: str = "frameworks"
    title: str = "Other frameworks and IOS, batch 1"
    published: str = (
        "README of the published code, section 4.2.2: V100 SXM2, cuDNN 7.6.5, TensorRT 7.0, "
        "TVM 0.6, TASO 1.0, TensorFlow 2.3."
    )
    notes: tuple[str, ...] = (
        "Read from stored races of `python -m tvm_ios_lab.peers.measure` on this project's two-core"
        " machine: PyTorch, eager and compiled, onnxruntime and OpenVINO, each with its better "
        "number of threads. Ours may have kernels of AutoTVM or oneDNN where those are faster; "
        "*tvm-ios sequential* has the same kernels in order.",
        "The frameworks of the paper are for another device, so that only the shape compares: "
        "networks of many small branches gain most.",
    )
    found_kind: type[RacedPeers] = RacedPeers

    def cells(self, _: Settings) -> tuple[StoredRaceCell, ...]:
        """The networks that the peers' run has a stored race of, by name."""
        files = (ROOT / RACES).glob("*_bs1.json")
        names = sorted(path.name.removesuffix("_bs1.json") for path in files)
        return tuple(StoredRaceCell.of(name, _path(name)) for name in names)

    def measure(self, cell: StoredRaceCell, _: Bench) -> RacedPeers:
        """Read the stored race."""
        path = _path(cell.network)
        record = stored_record(
            path, command=f"python -m tvm_ios_lab.peers.measure --networks {cell.network}"
        )
        return _raced(record, path)

    def table(self, outcomes: Sequence[Outcome[StoredRaceCell, RacedPeers]]) -> Table:
        """A row for each network."""
        header = (
            "network",
            *(f"{name} ms" for name in (*PEERS, SEQUENTIAL, OURS)),
            "ours",
            "over the best peer",
            "measured",
            *(f"published {name} ms (V100)" for name in PUBLISHED),
        )
        return table_of(header, outcomes, _rows)

    def panels(self, outcomes: Sequence[Outcome[StoredRaceCell, RacedPeers]]) -> tuple[Panel, ...]:
        """Throughput, the best being 1, as the paper has it: this CPU, and the published V100."""
        here = [(each.cell.network, each.found) for each in outcomes if each.found is not None]
        if not here:
            return ()
        names = (*PEERS, SEQUENTIAL, OURS)
        told = list(PUBLISHED_MS)
        return (
            Bars(
                title="This CPU, measured",
                y_label="throughput, best is 1",
                groups=tuple(name.replace("_", "\n") for name, _ in here),
                series=tuple(
                    Series(
                        name=name,
                        values=tuple(
                            min(each.ms.values()) / each.ms[name] if name in each.ms else None
                            for _, each in here
                        ),
                    )
                    for name in names
                ),
            ),
            Bars(
                title="V100, all of it published",
                y_label="throughput, best is 1",
                groups=tuple(name.replace("_", "\n", 1) for name in told),
                series=tuple(
                    Series(
                        name=name,
                        values=tuple(
                            min(PUBLISHED_MS[net]) / PUBLISHED_MS[net][place] for net in told
                        ),
                    )
                    for place, name in enumerate(PUBLISHED)
                ),
            ),
        )


def _path(network: str) -> str:
    return f"{RACES}/{network}_bs1.json"


def _raced(record: BenchmarkRecord, path: str) -> RacedPeers:
    race = record.comparison
    raced = Raced(record=record, left_out=())
    facts = record.facts
    ours = [name for name in race.names if f"schedule of {name}" in facts]
    chosen = {name: raced.fastest(ways) for name, ways in PEERS.items()}
    best, peer = min(ours, key=race.median_ns, default=None), raced.fastest(ALL_PEERS)
    over_peer = None
    if best is not None and peer is not None:
        speedup = race.speedup(best, over=peer)
        over_peer = (speedup.ratio, speedup.low, speedup.high)
    if best is not None:
        chosen[SEQUENTIAL], _ = raced.orders(facts[f"kernels of {best}"])
        chosen[OURS] = best
    return RacedPeers(
        ms={name: race.median_ns(who) / 1e6 for name, who in chosen.items() if who is not None},
        best="" if best is None else best.removeprefix("tvm-ios ").rpartition(",")[0],
        over_peer=over_peer,
        measured_by=record.command,
        measured_at=record.taken_at,
        record=path,
    )


def _rows(cell: StoredRaceCell, found: RacedPeers) -> list[tuple[str, ...]]:
    told = PUBLISHED_MS.get(cell.network)
    return [
        (
            cell.network,
            *(
                f"{found.ms[name]:.3f}" if name in found.ms else "-"
                for name in (*PEERS, SEQUENTIAL, OURS)
            ),
            found.best or "not measured",
            "-" if found.over_peer is None else "{:.2f} ({:.2f}-{:.2f})".format(*found.over_peer),
            found.measured_at[:10],
            *(["-"] * len(PUBLISHED) if told is None else (f"{ms:.2f}" for ms in told)),
        )
    ]
