"""The table of Ansor's artifact: five networks at two batch sizes against PyTorch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from tvm_ios.measure.comparison import Comparison
from tvm_ios.report.table import Table
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.kernel_source import KernelSource, kernel_source
from tvm_ios_lab.harness.peers import (
    TORCH,
    KernelRecipe,
    PeerGroup,
    Raced,
    peer_group,
    peer_race,
)
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.places import ROOT

__all__ = [
    "COMMITTED_LOG",
    "PUBLISHED_MS",
    "PUBLISHED_OVER",
    "Ansor",
    "AnsorCell",
    "RacedNetwork",
    "raced_network",
]

COMMITTED_LOG = "lab/records/ansor.auto_scheduler.log"
NETWORKS = {
    "resnet_50": "resnet-50",
    "mobilenet_v2": "mobilenet-v2",
    "resnet3d_18": "resnet3d-18",
    "dcgan": "dcgan",
    "bert_base": "bert",
}
"""Ours, and what the artifact calls them."""
BATCHES = (1, 16)
TRIALS, QUICK_TRIALS = 2000, 200
"""Candidates of a network with ``--tune``."""
ROUNDS = 12
"""Rounds of a race, in which a run takes up to seconds; quick ones too, so that they are the first
half of a full one."""
EAGER, COMPILED = "PyTorch", "torch.compile"
BY_TVM = "\n[build]\nlibraries = []\n"
"""Lines of a configuration that leave out operator libraries."""
KERNELS = {"tvm": "TVM", "ansor": "Ansor", "onednn": "oneDNN"}
OURS = tuple(f"{kernels}, {order}" for kernels in KERNELS.values() for order in ("in order", "IOS"))
CONTESTANTS = (EAGER, COMPILED, *OURS)
PUBLISHED_MS = {
    ("resnet_50", 1): (35.54, 5.81),
    ("resnet_50", 16): (434.28, 65.62),
    ("mobilenet_v2", 1): (13.03, 0.86),
    ("mobilenet_v2", 16): (184.21, 11.67),
    ("resnet3d_18", 1): (615.13, 33.91),
    ("resnet3d_18", 16): (8335.67, 504.22),
    ("dcgan", 1): (16.69, 1.15),
    ("dcgan", 16): (205.17, 9.26),
    ("bert_base", 1): (29.85, 20.24),
    ("bert_base", 16): (254.32, 254.17),
}
"""PyTorch and Ansor, milliseconds on 18 cores of an Intel Xeon Platinum 8124M."""
PUBLISHED_OVER = {
    ("resnet_50", 1): 6.12,
    ("resnet_50", 16): 6.62,
    ("mobilenet_v2", 1): 15.14,
    ("mobilenet_v2", 16): 15.78,
    ("resnet3d_18", 1): 18.14,
    ("resnet3d_18", 16): 16.53,
    ("dcgan", 1): 14.47,
    ("dcgan", 16): 22.16,
    ("bert_base", 1): 1.48,
    ("bert_base", 16): 1.00,
}
"""Speedup of Ansor over PyTorch, as printed there, by network and batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsorCell:
    """Network at one batch size."""

    network: str
    run: CpuRun
    source: KernelSource
    """Source of Ansor's kernels."""
    against: PeerGroup | None
    """Frameworks to race against; None where we race ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RacedNetwork:
    """PyTorch and us, all of one interleaved race."""

    ms: Mapping[str, float]
    """Milliseconds by contestant; who took no part is not there."""
    same: tuple[str, ...]
    """Contestants whose IOS schedule is sequential order, and which did not run twice."""
    best: str
    """The fastest of ours."""
    over_torch: tuple[float, float, float] | None
    """Speedup over the better PyTorch, and its interval."""
    records: str
    """Kernels of Ansor's build that have one of its records."""
    left_out: tuple[str, ...]
    """Contestants that took no part, and why."""
    race: Comparison
    log_digest: str = ""
    """Digest of the committed log; empty with ``--tune``, and in cells that did not keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ansor:
    """The artifact's table, and the figure of the paper that it belongs to."""

    name: str = "ansor"
    title: str = "The networks of Ansor's artifact against PyTorch"
    published: str = (
        "README of Ansor's artifact (Zheng et al., OSDI 2020), which is figure 9 (a) of the paper: "
        "PyTorch of 2020 and Ansor after about 1000 candidates a task, on 18 cores of an Intel "
        "Xeon Platinum 8124M (AWS c5.9xlarge) with AVX-512."
    )
    notes: tuple[str, ...] = (
        "Measured on this CPU, all contestants of a row in one interleaved race. PyTorch is the "
        "better of eager NCHW and channels last, *torch.compile* has frozen weights; at batch 1 "
        "with the better of one and all threads. Batch normalisation is folded into convolutions "
        "beside it for everybody. Ours may pad channels, and *Ansor* and *oneDNN* keep TVM's own "
        "kernel where it is faster; *Ansor's records* says how many kernels have one. An IOS "
        "schedule marked = is sequential order: such a network has nothing to run side by side.",
        f"Ansor's kernels are those of the committed log `{COMMITTED_LOG}`, made by "
        "`tvm-ios jobs run lab/records/ansor_quick.toml`; with `--tune` each network is "
        f"searched into a log of its own ({TRIALS} candidates, {QUICK_TRIALS} with `--quick`). "
        "*Another log* is another version of it, and of *unknown log* are cells that kept none.",
        "Goal on two cores: at least 1.00 of PyTorch in all ten rows, and 1.5 in their geometric "
        "mean; the last row says what is reached.",
    )
    found_kind: type[RacedNetwork] = RacedNetwork

    def cells(self, settings: Settings) -> tuple[AnsorCell, ...]:
        """Cells of all networks at batch one, then at batch 16, which quick runs leave out."""
        source = kernel_source(settings, quick_trials=QUICK_TRIALS, trials=TRIALS)
        return tuple(
            AnsorCell(
                network=network,
                run=cpu_run(settings, batch=batch, has_sizes=False, rounds=ROUNDS),
                source=source,
                against=peer_group(settings, TORCH),
            )
            for batch in (BATCHES[:1] if settings.quick else BATCHES)
            for network in NETWORKS
        )

    def measure(self, cell: AnsorCell, bench: Bench) -> RacedNetwork:
        """Build with three sets of kernels, and race."""
        trials, digest = cell.source.trials, cell.source.digest(COMMITTED_LOG)
        race = peer_race(cell.network, cell.run, cell.against, bench, trials=trials)
        return replace(raced_network(race.run(_recipes(cell, bench))), log_digest=digest)

    def table(self, outcomes: Sequence[Outcome[AnsorCell, RacedNetwork]]) -> Table:
        """A row for each network and batch, and the mean of those that have PyTorch."""
        header = (
            "network",
            "batch",
            *(f"{name} ms" for name in CONTESTANTS),
            "our best",
            "over PyTorch",
            "Ansor's records",
            "left out",
            "published PyTorch ms (18 cores)",
            "published Ansor ms (18 cores)",
            "published Ansor over PyTorch (18 cores)",
        )
        ratios = [o.found.over_torch[0] for o in outcomes if o.found and o.found.over_torch]
        closing = [_closing(ratios, len(header))] if ratios else []
        return table_of(header, outcomes, _rows, closing)

    def panels(self, outcomes: Sequence[Outcome[AnsorCell, RacedNetwork]]) -> tuple[Panel, ...]:
        """Normalised performance as in the paper, a panel a batch; then what is published."""
        panels = []
        for batch in BATCHES:
            here = [
                (each.cell.network, each.found.ms)
                for each in outcomes
                if each.found is not None and each.cell.run.batch == batch
            ]
            if here:
                title = f"Batch {batch}, measured on this CPU"
                panels.append(_normalised(title, CONTESTANTS, here))
        for batch in BATCHES if panels else ():
            told = [
                (network, dict(zip((EAGER, "Ansor"), ms, strict=True)))
                for (network, size), ms in PUBLISHED_MS.items()
                if size == batch
            ]
            title = f"Batch {batch}, published: 18 cores of a Xeon 8124M"
            panels.append(_normalised(title, (EAGER, "Ansor"), told))
        return tuple(panels)


def raced_network(raced: Raced) -> RacedNetwork:
    """Result of a race of a network with PyTorch."""
    race = raced.record.comparison
    chosen = {EAGER: raced.fastest(TORCH[:2]), COMPILED: raced.fastest(TORCH[2:])}
    same = []
    for kernels, title in KERNELS.items():
        in_order, ios = f"{title}, in order", f"{title}, IOS"
        chosen[in_order], chosen[ios] = raced.orders(kernels)
        if chosen[ios] is None and chosen[in_order] is not None:
            chosen[ios] = chosen[in_order]
            same.append(ios)
    took_part = {name: who for name, who in chosen.items() if who is not None}
    best = min((n for n in took_part if n in OURS), key=lambda n: race.median_ns(took_part[n]))
    torch = [took_part[name] for name in (EAGER, COMPILED) if name in took_part]
    over = None
    if torch:
        speedup = race.speedup(took_part[best], over=min(torch, key=race.median_ns))
        over = (speedup.ratio, speedup.low, speedup.high)
    return RacedNetwork(
        ms={name: race.median_ns(who) / 1e6 for name, who in took_part.items()},
        same=tuple(same),
        best=best,
        over_torch=over,
        records=_records_in_force(raced.record.facts.get("tune's report on kernels ansor", "")),
        left_out=raced.left_out,
        race=race,
    )


def _recipes(cell: AnsorCell, bench: Bench) -> Mapping[str, KernelRecipe]:
    """Recipe of each set of kernels, by name."""
    limit = f"time_budget = {bench.time_budget}\n"
    recipes = {
        "tvm": KernelRecipe(text=f"{limit}{BY_TVM}"),
        "onednn": KernelRecipe(text=f'{limit}\n[build]\nlibraries = ["onednn"]\n'),
    }
    if cell.source.trials:
        searched = f'[tuning]\nbackend = "auto_scheduler"\ntrials = {cell.source.trials}\n{BY_TVM}'
        return {**recipes, "ansor": KernelRecipe(text=searched)}
    log = ROOT / COMMITTED_LOG
    # Builds are made again where their recipe has changed, and so where the log has.
    digest = hashlib.sha256(log.read_bytes() if log.exists() else b"").hexdigest()
    text = f"# log {digest[:16]}\n{limit}{BY_TVM}"
    return {**recipes, "ansor": KernelRecipe(text=text, log=log)}


def _records_in_force(report: str) -> str:
    found = re.search(r"records in force: (\d+ of \d+|none)", report)
    return found[1] if found else "none"


def _normalised(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, Mapping[str, float]]]
) -> Bars:
    """Bars of performance, that of the fastest of each network being 1."""
    return Bars(
        title=title,
        y_label="performance, best is 1",
        groups=tuple(NETWORKS[network] for network, _ in rows),
        series=tuple(
            Series(
                name=name,
                values=tuple(min(ms.values()) / ms[name] if name in ms else None for _, ms in rows),
            )
            for name in names
        ),
    )


def _closing(ratios: Sequence[float], width: int) -> tuple[str, ...]:
    """The row of the means, above 1 where we are faster."""
    enough = sum(ratio >= 1 for ratio in ratios)
    said = f"{geometric_mean(ratios):.2f}; at least 1.00 in {enough} of {len(ratios)} rows"
    before = 2 + len(CONTESTANTS)
    return ("geometric mean", *[""] * before, said, *[""] * (width - before - 2))


def _rows(cell: AnsorCell, found: RacedNetwork) -> list[tuple[str, ...]]:
    torch_ms, ansor_ms = PUBLISHED_MS[cell.network, cell.run.batch]
    return [
        (
            NETWORKS[cell.network],
            str(cell.run.batch),
            *(
                f"{'=' * (name in found.same)}{found.ms[name]:.3f}" if name in found.ms else "-"
                for name in CONTESTANTS
            ),
            found.best,
            "-" if found.over_torch is None else "{:.2f} ({:.2f}-{:.2f})".format(*found.over_torch),
            found.records + cell.source.remark(found.log_digest, COMMITTED_LOG),
            "; ".join(found.left_out) or "-",
            f"{torch_ms:.2f}",
            f"{ansor_ms:.2f}",
            f"{PUBLISHED_OVER[cell.network, cell.run.batch]:.2f}",
        )
    ]
