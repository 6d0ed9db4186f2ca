"""Inception V3 at growing batches: what IOS is worth when single operators fill the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import HostError
from tvm_ios.report.table import Table
from tvm_ios_lab.cells.batch_size import TimedBatch
from tvm_ios_lab.figures.chart import Lines, Panel, Series
from tvm_ios_lab.harness.agreement import error_of
from tvm_ios_lab.harness.checkout import distinct_parts
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.error_column import error_row, error_text
from tvm_ios_lab.harness.peers import (
    ALL_PEERS,
    KernelRecipe,
    PeerGroup,
    Raced,
    peer_group,
    peer_race,
)
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["BATCHES", "PUBLISHED_MS", "BatchSize", "BatchSizeCell", "raced_batch"]

CPU = "CPU"
NETWORK = "Inception V3"
PEER_NETWORK = "inception_v3"
"""Name of the network in races with other frameworks."""
KERNELS = "onednn"
ROUNDS = 12
"""Rounds of a race, in which a run takes up to seconds."""
BATCHES = (1, 16, 32, 64, 128)
CPU_BATCHES = (1, 16, 32)
"""A batch of 128 takes seconds a run here, and hours to search."""
PUBLISHED_MS = {
    1: (6.20, 4.82, 3.94),
    16: (17.95, 17.82, 15.17),
    32: (30.54, 29.97, 27.00),
    64: (55.67, 56.25, 51.11),
    128: (108.55, 106.84, 102.74),
}
"""Milliseconds on the V100: sequential order, TensorRT, IOS-both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizeCell:
    """Batch size on one device."""

    device: str
    batch: int
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""
    against: PeerGroup | None = None
    """Frameworks to race against; None where no other one races."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """The paper's figure of batch sizes."""

    name: str = "batch-size"
    title: str = "Inception V3 at batches of 1 to 128"
    published: str = (
        "README of the published code, section 4.2.6 (log): V100 SXM2, cuDNN 7.6.5; TensorRT 7.0 "
        "is the best peer there."
    )
    notes: tuple[str, ...] = (
        "V100, K80 and H100 rows are computed by the analytical model, nothing was measured. CPU "
        "rows are measured, to a batch of 32, with oneDNN's kernels where those are faster, in one "
        "interleaved race with PyTorch (eager, channels last and compiled), onnxruntime and "
        "OpenVINO; IOS is the better of the search's schedule and its list, and = stands where it "
        "is sequential order. With --quick the CPU's network has images of 139 pixels and TVM's "
        "kernels, IOS has no list, and no other framework races.",
        "The model is up to 1.5 times too slow at large batches: cuDNN takes Winograd's algorithm "
        "there, which multiplies less and which the model does not have; gains of IOS come out "
        "too small for the same reason. They fall with the batch in both.",
    )
    found_kind: type[TimedBatch] = TimedBatch

    def cells(self, settings: Settings) -> tuple[BatchSizeCell, ...]:
        """The CPU's batches, then those of every GPU."""
        against = None if settings.quick else peer_group(settings, ALL_PEERS)
        return (
            *(
                BatchSizeCell(
                    device=CPU,
                    batch=batch,
                    run=cpu_run(settings, batch=batch, rounds=ROUNDS),
                    against=against,
                )
                for batch in CPU_BATCHES
            ),
            *(
                BatchSizeCell(device=device, batch=batch, run=None)
                for device in SYSTEMS
                for batch in BATCHES
            ),
        )

    def measure(self, cell: BatchSizeCell, bench: Bench) -> TimedBatch:
        """Search and race, or add up prices."""
        if cell.run is None:
            return _modelled(cell)
        if not cell.run.small:
            text = f'time_budget = {bench.time_budget}\n\n[build]\nlibraries = ["onednn"]\n'
            race = peer_race(PEER_NETWORK, cell.run, cell.against, bench)
            return raced_batch(race.run({KERNELS: KernelRecipe(text=text)}))
        from tvm_ios_lab.measured.batches import batch_raced  # noqa: PLC0415 - loads TVM

        return batch_raced(NETWORK, cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[BatchSizeCell, TimedBatch]]) -> Table:
        """A row for each batch of each device."""
        header = (
            "device",
            "batch",
            "sequential ms",
            "IOS ms",
            "speedup",
            "IOS images/s",
            "best peer",
            "peer ms",
            "over the peer",
            "left out",
            "published sequential ms (V100)",
            "published TensorRT ms (V100)",
            "published IOS ms (V100)",
            "published speedup (V100)",
            "error",
        )
        errors = (_error(each.cell, each.found) for each in outcomes if each.found is not None)
        closing = error_row(errors, width=len(header))
        return table_of(header, outcomes, _rows, closing)

    def panels(self, outcomes: Sequence[Outcome[BatchSizeCell, TimedBatch]]) -> tuple[Panel, ...]:
        """Images a second on the V100, as the paper has it, and what IOS is worth everywhere."""
        found = {(e.cell.device, e.cell.batch): e.found for e in outcomes if e.found is not None}
        if not found:
            return ()
        v100 = [found.get(("V100", batch)) for batch in BATCHES]

        def rates(values: Sequence[float | None]) -> tuple[float | None, ...]:
            pairs = zip(BATCHES, values, strict=True)
            return tuple(ms and batch * 1e3 / ms for batch, ms in pairs)

        told = [rates([PUBLISHED_MS[batch][place] for batch in BATCHES]) for place in range(3)]
        places = sorted({batch for _, batch in found})
        devices = dict.fromkeys(device for device, _ in found)
        return (
            Lines(
                title="V100 by the model: images a second",
                x_label="batch",
                y_label="images/s",
                x=tuple(map(float, BATCHES)),
                x_ticks=tuple(map(str, BATCHES)),
                series=(
                    Series(
                        name="sequential",
                        values=rates([None if b is None else b.sequential_ms for b in v100]),
                    ),
                    Series(
                        name="IOS", values=rates([None if b is None else b.ios_ms for b in v100])
                    ),
                    Series(name="sequential", values=told[0], published=True),
                    Series(name="TensorRT", values=told[1], published=True),
                    Series(name="IOS", values=told[2], published=True),
                ),
            ),
            Lines(
                title="IOS over sequential order (CPU measured, others by the model)",
                x_label="batch",
                y_label="speedup",
                x=tuple(map(float, places)),
                x_ticks=tuple(map(str, places)),
                series=(
                    *(
                        Series(
                            name=device,
                            values=tuple(
                                None if (b := found.get((device, batch))) is None else b.speedup
                                for batch in places
                            ),
                        )
                        for device in devices
                    ),
                    Series(
                        name="V100",
                        values=tuple(
                            PUBLISHED_MS[b][0] / PUBLISHED_MS[b][2] if b in PUBLISHED_MS else None
                            for b in places
                        ),
                        published=True,
                    ),
                ),
            ),
        )


def raced_batch(raced: Raced) -> TimedBatch:
    """Result of a race of a batch with other frameworks."""
    race = raced.record.comparison
    in_order, ios = raced.orders(KERNELS)
    ios = ios or in_order
    if in_order is None or ios is None:
        raise HostError(f"sequential order took no part: {'; '.join(raced.left_out)}")
    peer = raced.fastest(ALL_PEERS)
    over = None if peer is None else race.speedup(ios, over=peer)
    return TimedBatch(
        sequential_ms=race.median_ns(in_order) / 1e6,
        ios_ms=race.median_ns(ios) / 1e6,
        speedup=race.speedup(ios, over=in_order).ratio,
        race=race,
        peer=peer or "",
        peer_ms=None if peer is None else race.median_ns(peer) / 1e6,
        over_peer=None if over is None else (over.ratio, over.low, over.high),
        same=in_order == ios,
        left_out=raced.left_out,
    )


def _modelled(cell: BatchSizeCell) -> TimedBatch:
    system = SYSTEMS[cell.device]
    total_ns = {"sequential": 0, "IOS-both": 0}
    for part, count in distinct_parts(NETWORK).values():
        model = system.model(part, cell.batch)
        for name in total_ns:
            schedule = system.schedule(part, model, name)
            total_ns[name] += count * system.run_ns(part, model, schedule)
    sequential_ns, ios_ns = total_ns.values()
    return TimedBatch(
        sequential_ms=sequential_ns / 1e6,
        ios_ms=ios_ns / 1e6,
        speedup=sequential_ns / ios_ns,
        race=None,
    )


def _error(cell: BatchSizeCell, found: TimedBatch) -> float | None:
    """Relative error of the V100's speedup; None on other devices."""
    if cell.device != "V100":
        return None
    sequential_ms, _, ios_ms = PUBLISHED_MS[cell.batch]
    return error_of(found.speedup, sequential_ms / ios_ms)


def _rows(cell: BatchSizeCell, found: TimedBatch) -> list[tuple[str, ...]]:
    told = PUBLISHED_MS.get(cell.batch)
    error = _error(cell, found)
    where = f"{cell.device}, {cell.run.size if cell.run else 'model'}"
    return [
        (
            where,
            str(cell.batch),
            f"{found.sequential_ms:.2f}",
            f"{'=' * found.same}{found.ios_ms:.2f}",
            f"{found.speedup:.3f}",
            f"{cell.batch * 1e3 / found.ios_ms:.0f}",
            found.peer or "-",
            "-" if found.peer_ms is None else f"{found.peer_ms:.2f}",
            "-" if found.over_peer is None else "{:.2f} ({:.2f}-{:.2f})".format(*found.over_peer),
            "; ".join(found.left_out) or "-",
            *(
                ("-",) * 4
                if told is None
                else (*(f"{ms:.2f}" for ms in told), f"{told[0] / told[2]:.3f}")
            ),
            error_text(error),
        )
    ]
