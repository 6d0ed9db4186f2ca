"""Gain and cost of pruning: r operators in a group, s groups in a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.table import Table
from tvm_ios.search.options import SearchOptions
from tvm_ios_lab.cells.pruning import LIMITS, PrunedNetwork, PrunedSearch, limits_text
from tvm_ios_lab.figures.chart import Lines, Panel, Series
from tvm_ios_lab.harness.agreement import error_of
from tvm_ios_lab.harness.checkout import distinct_parts
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.error_column import error_row, error_text
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["PUBLISHED", "Pruning", "PruningCell"]

CPU = "CPU"
CPU_NETWORK = "SqueezeNet"
"""The one network whose stages can all be priced on a CPU within minutes."""
PUBLISHED = {
    "Inception V3": {
        (1, 3): (4.26, 5),
        (1, 8): (4.15, 7),
        (2, 3): (4.16, 17),
        (2, 8): (4.04, 25),
        (3, 3): (4.10, 29),
        (3, 8): (4.03, 43),
    },
    "NasNet-A": {
        (1, 3): (17.9, 137),
        (1, 8): (16.7, 492),
        (2, 3): (16.9, 360),
        (2, 8): (16.1, 2648),
        (3, 3): (16.9, 641),
        (3, 8): (16.0, 3412),
    },
}
"""Milliseconds and seconds of the search on the V100, by r and s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningCell:
    """Network on one device, with all limits."""

    network: str
    device: str
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The paper's figure of search cost against latency."""

    name: str = "pruning"
    title: str = "Pruning: cost of the search against latency"
    published: str = (
        "README of the published code, section 4.2.5: latencies of the figure, seconds of the log, "
        "V100, IOS-both, batch 1."
    )
    notes: tuple[str, ...] = (
        "V100 rows are computed by the analytical model with the endings of the published code; "
        "their seconds are those of computing prices here. *lazy* prices only stages that can "
        "still win, *exhaustive* all of them, as the published code does; states and transitions "
        "are exact and the same for both. NasNet-A is left out with --quick: to price all of its "
        "stages takes more than a minute.",
        "CPU rows are measured: SqueezeNet, whose stages can all be priced, each search with an "
        "empty profile database and all merges compiled; what the lazy ones find is raced. Its "
        "blocks have at most three groups, so s = 3 and s = 8 are the same search; the difference "
        "between them is noise of the prices.",
    )
    found_kind: type[PrunedNetwork] = PrunedNetwork

    def cells(self, settings: Settings) -> tuple[PruningCell, ...]:
        """The CPU's network, then the paper's two."""
        networks = ("Inception V3",) if settings.quick else tuple(PUBLISHED)
        return (
            PruningCell(network=CPU_NETWORK, device=CPU, run=cpu_run(settings)),
            *(PruningCell(network=network, device="V100", run=None) for network in networks),
        )

    def measure(self, cell: PruningCell, bench: Bench) -> PrunedNetwork:
        """Search within all limits, lazily and exhaustively."""
        if cell.run is None:
            return _modelled(cell)
        from tvm_ios_lab.measured.pruned import pruned  # noqa: PLC0415 - loads TVM

        return pruned(cell.network, cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[PruningCell, PrunedNetwork]]) -> Table:
        """A row for each search."""
        header = (
            "network, device",
            "r",
            "s",
            "search",
            "ms",
            "search s",
            "stages priced",
            "stages possible",
            "states",
            "transitions",
            "published ms (V100)",
            "published search s (V100)",
            "ms, r=3 s=8 is 1",
            "published ms, r=3 s=8 is 1 (V100)",
            "error",
        )
        errors = (
            _error(each.cell, each.found, search)
            for each in outcomes
            if each.found is not None
            for search in each.found.searches
            if search.lazy
        )
        closing = error_row(errors, width=len(header))
        return table_of(header, outcomes, _rows, closing)

    def panels(self, outcomes: Sequence[Outcome[PruningCell, PrunedNetwork]]) -> tuple[Panel, ...]:
        """Latency against stages priced, for each network, as the paper has it against seconds."""
        panels = []
        for each in outcomes:
            if each.found is None:
                continue
            told = PUBLISHED.get(each.cell.network, {}) if each.cell.device == "V100" else {}
            ticks = tuple(limits_text(limits) for limits in LIMITS)
            places = tuple(map(float, range(len(LIMITS))))
            where = f"{each.cell.network}, {each.cell.device}"
            source = "measured" if each.cell.run else "by the model"
            priced = [
                Series(
                    name="lazy" if lazy else "exhaustive",
                    values=tuple(
                        float(one.priced) for one in each.found.searches if one.lazy is lazy
                    ),
                )
                for lazy in (True, False)
            ]
            latency = Series(
                name="latency",
                values=tuple(one.ms for one in each.found.searches if one.lazy),
            )
            known = Series(
                name="latency", published=True, values=tuple(told[each][0] for each in told)
            )
            panels += [
                Lines(
                    title=f"{where}, {source}: latency by limits",
                    x_label="most operators in a group (r), groups in a stage (s)",
                    y_label="ms",
                    x=places,
                    x_ticks=ticks,
                    series=(latency, known) if told else (latency,),
                ),
                Lines(
                    title=f"{where}: stages that were priced",
                    x_label="most operators in a group (r), groups in a stage (s)",
                    y_label="stages",
                    x=places,
                    x_ticks=ticks,
                    series=tuple(priced),
                ),
            ]
        return tuple(panels)


def _modelled(cell: PruningCell) -> PrunedNetwork:
    system = SYSTEMS[cell.device]
    searches = []
    for r, s in LIMITS:
        for lazy in (True, False):
            options = SearchOptions(max_group_size=r, max_num_groups=s)
            total_ns = seconds = 0.0
            priced = possible = states = transitions = 0
            for part, count in distinct_parts(cell.network).values():
                model = system.model(part)
                found = system.search(part, model, options, lazy=lazy)
                total_ns += count * system.run_ns(part, model, found.schedule)
                seconds += found.seconds
                priced += found.priced
                possible += found.distinct_stages
                states += found.states
                transitions += found.transitions
            searches.append(
                PrunedSearch(
                    max_group_size=r,
                    max_num_groups=s,
                    lazy=lazy,
                    ms=total_ns / 1e6,
                    seconds=seconds,
                    priced=priced,
                    possible=possible,
                    states=states,
                    transitions=transitions,
                )
            )
    return PrunedNetwork(searches=tuple(searches), race=None)


def _over_widest(found: PrunedNetwork, search: PrunedSearch) -> float:
    """Latency over that of the widest limits, for the same kind of search."""
    (widest,) = (
        one for one in found.searches if one.limits == LIMITS[-1] and one.lazy is search.lazy
    )
    return search.ms / widest.ms


def _published_over_widest(cell: PruningCell, search: PrunedSearch) -> float | None:
    told = PUBLISHED.get(cell.network, {}) if cell.device == "V100" else {}
    return told[search.limits][0] / told[LIMITS[-1]][0] if told else None


def _error(cell: PruningCell, found: PrunedNetwork, search: PrunedSearch) -> float | None:
    """Relative error of the model in what limits cost; None where nothing is published."""
    told = _published_over_widest(cell, search)
    if told is None or search.limits == LIMITS[-1]:
        return None
    return error_of(_over_widest(found, search), told)


def _rows(cell: PruningCell, found: PrunedNetwork) -> list[tuple[str, ...]]:
    where = f"{cell.network}, {cell.device}, {cell.run.size if cell.run else 'model'}"
    rows: list[tuple[str, ...]] = []
    for search in found.searches:
        told = PUBLISHED.get(cell.network, {}).get(search.limits)
        told = told if cell.device == "V100" else None
        timed = search.lazy or cell.run is None
        over_told = _published_over_widest(cell, search)
        error = _error(cell, found, search)
        rows.append(
            (
                where,
                str(search.max_group_size),
                str(search.max_num_groups),
                "lazy" if search.lazy else "exhaustive",
                f"{search.ms:.3f}" if timed else "-",
                f"{search.seconds:.1f}",
                str(search.priced),
                str(search.possible),
                str(search.states),
                str(search.transitions),
                "-" if told is None else f"{told[0]:.2f}",
                "-" if told is None else str(told[1]),
                f"{_over_widest(found, search):.3f}" if timed else "-",
                "-" if over_told is None else f"{over_told:.3f}",
                error_text(error),
            )
        )
    return rows
