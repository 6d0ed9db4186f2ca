"""The inter-operator schedule: the result of a search, as immutable, printable, storable data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.errors import ScheduleError
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = ["SCHEDULE_VERSION", "InterOpSchedule", "LibraryOperators", "Stage", "Strategy"]

SCHEDULE_VERSION = 1
_ONLY_LIBRARY_ONCE = "cudnn"
"""Name of the field that holds this library's operators in older files."""
_FIELDS = (
    "version",
    "graph_name",
    "graph_fingerprint",
    "scheduler",
    "latency_ns",
    "priced_by",
    "operators",
    "operator_ns",
    "unsplit",
    "libraries",
    "home_lanes",
    "form",
    "bfloat16",
    "stages",
    _ONLY_LIBRARY_ONCE,
)


class Strategy(Enum):
    """Strategy of a stage: how its groups run (Ding et al., MLSys 2021, section 3.1)."""

    CONCURRENT = "concurrent"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators that run between two points of order.

    A concurrent stage runs its groups at the same time, the operators of a group one after
    another. A merge stage has one operator a group and runs them as a single convolution.
    """

    groups: tuple[tuple[int, ...], ...]
    strategy: Strategy = Strategy.CONCURRENT

    @property
    def operators(self) -> tuple[int, ...]:
        """Operators of all groups, ascending."""
        return tuple(sorted(index for group in self.groups for index in group))

    @property
    def is_merge(self) -> bool:
        """True if the stage needs a kernel of its own: a merge of one operator does not."""
        return self.strategy is Strategy.MERGE and len(self.groups) > 1


@dataclass(frozen=True, slots=True)
class LibraryOperators:
    """Operators that one operator library computes in place of TVM's kernels."""

    library: str
    """Name of the library in files, such as ``cudnn``."""
    operators: tuple[int, ...]
    """Operators it computes, ascending; a merge stage counts if all its members are here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterOpSchedule:
    """Stages in the order they run, for one operator graph."""

    graph_name: str
    graph_fingerprint: str
    operator_names: tuple[str, ...]
    stages: tuple[Stage, ...]
    scheduler: str
    """Name of the scheduler that made it: ``sequential``, ``greedy``, ``ios`` …."""
    latency_ns: int | None = None
    """Latency that the cost model predicted, in nanoseconds."""
    priced_by: str = ""
    """Source of the prices, if they were not measured where the schedule is to run; else empty."""
    operator_ns: tuple[int, ...] = ()
    """Nanoseconds of each operator alone on one lane, as priced; empty where nobody did."""
    unsplit: tuple[int, ...] = ()
    """Operators that stay on one lane, ascending: too small for idle lanes to help with."""
    libraries: tuple[LibraryOperators, ...] | None = None
    """Operators that operator libraries are to compute, each by one; None where nobody has
    chosen."""
    home_lanes: tuple[int, ...] = ()
    """Lane of each operator of a list: operators wait for data only, never for a stage, and lanes
    take ready ones in the order of the stages. Empty for schedules whose stages count."""
    form: ImageForm | None = None
    """Form of the model that the graph is of; None where layouts are those of the model."""
    low: LowPrecision | None = None
    """Values that lie in memory as bfloat16; None where all are as in the model."""

    def to_json(self) -> str:
        """Versioned JSON of the schedule; :meth:`from_json` reads it back."""
        return json.dumps(
            {
                "version": SCHEDULE_VERSION,
                "graph_name": self.graph_name,
                "graph_fingerprint": self.graph_fingerprint,
                "scheduler": self.scheduler,
                "latency_ns": self.latency_ns,
                **({"priced_by": self.priced_by} if self.priced_by else {}),
                "operators": list(self.operator_names),
                "operator_ns": list(self.operator_ns),
                "unsplit": list(self.unsplit),
                **({} if self.libraries is None else {"libraries": _libraries_data(self)}),
                **({"home_lanes": list(self.home_lanes)} if self.home_lanes else {}),
                **({} if self.form is None else {"form": asdict(self.form)}),
                **({} if self.low is None else {"bfloat16": asdict(self.low)}),
                "stages": [
                    {
                        "strategy": stage.strategy.value,
                        "groups": [list(group) for group in stage.groups],
                    }
                    for stage in self.stages
                ],
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> InterOpSchedule:
        """Schedule in the JSON of :meth:`to_json`.

        Raises
        ------
        ScheduleError
            If the text is no JSON, of another version, or lacks a field or has one of another kind
            or an unknown one.
        """
        try:
            data = parse_json(text, "the schedule")
            version = data.field("version").whole()
            if version != SCHEDULE_VERSION:
                raise ScheduleError(
                    f"schedule has version {version!r}, this tvm-ios reads version "
                    f"{SCHEDULE_VERSION}; search again with the installed version"
                )
            names = data.only(*_FIELDS).field("operators").texts()
            last = len(names) - 1
            priced_by = data.optional_field("priced_by")
            operator_ns = data.optional_field("operator_ns")
            unsplit = data.optional_field("unsplit")
            homes = data.optional_field("home_lanes")
            home_lanes = () if homes is None else homes.wholes()
            if homes is not None and len(home_lanes) != len(names):
                raise ScheduleError(
                    f"not a schedule: home_lanes has {len(home_lanes)} entries for {len(names)} "
                    "operators; give each a lane, or leave it out"
                )
            return cls(
                graph_name=data.field("graph_name").text(),
                graph_fingerprint=data.field("graph_fingerprint").text(),
                operator_names=names,
                stages=tuple(_read_stage(stage, last) for stage in data.field("stages").rows()),
                scheduler=data.field("scheduler").text(),
                latency_ns=data.field("latency_ns").or_none(StoredValue.whole),
                priced_by="" if priced_by is None else priced_by.text(),
                operator_ns=() if operator_ns is None else operator_ns.wholes(),
                unsplit=() if unsplit is None else unsplit.wholes(last),
                libraries=_read_libraries(data, last),
                home_lanes=home_lanes,
                form=_read_form(data),
                low=_read_low(data, last),
            )
        except UnreadableValueError as error:
            raise ScheduleError(
                f"not a schedule: {error}; expected the JSON that InterOpSchedule.to_json writes"
            ) from error

    @property
    def num_home_lanes(self) -> int:
        """Number of lanes of :attr:`home_lanes`; 0 without home lanes."""
        return max(self.home_lanes, default=-1) + 1

    def by_library(self, library: str) -> tuple[int, ...]:
        """Operators that the operator library of a name is to compute."""
        return next((row.operators for row in self.libraries or () if row.library == library), ())

    def as_text(self) -> str:
        """Text with a line for each stage: strategy, then the groups with their operators by name.

        With home lanes, a line also has the lane of its stage.
        """
        latency = "" if self.latency_ns is None else f", predicted {self.latency_ns / 1e6:.4f} ms"
        source = f" by the {self.priced_by}" if self.priced_by else ""
        lanes = f" on {self.num_home_lanes} lanes" if self.home_lanes else ""
        low = "" if self.low is None else f", {len(self.low.operators)} of them in bfloat16,"
        lines = [
            f"schedule {self.scheduler} of {self.graph_name}: {len(self.operator_names)} operators"
            f"{low} in {len(self.stages)} stages{lanes}{latency}{source}"
        ]
        for number, stage in enumerate(self.stages):
            groups = " | ".join(
                " -> ".join(self.operator_names[index] for index in group) for group in stage.groups
            )
            homes = {self.home_lanes[index] for index in stage.operators} if lanes else ()
            on = "".join(f" on lane {lane}" for lane in sorted(homes))
            lines.append(f"  stage {number} {stage.strategy.value}{on}: {groups}")
        return "\n".join(lines)

    def require_graph(self, graph: OperatorGraph) -> None:
        """Refuse a graph this schedule was not made for.

        Raises
        ------
        ScheduleError
            If the fingerprints differ.
        """
        if graph.fingerprint() != self.graph_fingerprint:
            raise ScheduleError(
                f"schedule for graph {self.graph_name!r} (fingerprint {self.graph_fingerprint}, "
                f"{len(self.operator_names)} operators) does not fit graph {graph.name!r} "
                f"(fingerprint {graph.fingerprint()}, {len(graph)} operators); "
                "search again for this graph"
            )


def _libraries_data(schedule: InterOpSchedule) -> dict[str, list[int]]:
    return {row.library: list(row.operators) for row in schedule.libraries or ()}


def _read_form(data: StoredValue) -> ImageForm | None:
    form = data.optional_field("form")
    if form is None:
        return None
    fields = form.only("written", "layouts")
    layouts = fields.field("layouts").texts()
    if not {*layouts} <= {BLOCKS, CHANNELS_LAST}:
        raise ScheduleError(
            f"not a schedule: form has layouts {sorted({*layouts})}; expected {BLOCKS} and "
            f"{CHANNELS_LAST}"
        )
    return ImageForm(written=fields.field("written").wholes(), layouts=layouts)


def _read_low(data: StoredValue, last: int) -> LowPrecision | None:
    low = data.optional_field("bfloat16")
    if low is None:
        return None
    fields = low.only("results", "weights")
    return LowPrecision(
        results=fields.field("results").wholes(last), weights=fields.field("weights").wholes(last)
    )


def _read_stage(data: StoredValue, last: int) -> Stage:
    fields = data.only("strategy", "groups")
    return Stage(
        tuple(group.wholes(last) for group in fields.field("groups").rows()),
        fields.field("strategy").member(Strategy),
    )


def _read_libraries(data: StoredValue, last: int) -> tuple[LibraryOperators, ...] | None:
    rows = data.optional_field("libraries")
    if rows is not None:
        return tuple(
            LibraryOperators(name, operators.wholes(last))
            for name, operators in rows.fields().items()
        )
    older = data.optional_field(_ONLY_LIBRARY_ONCE)
    if older is None:
        return None
    return (LibraryOperators(_ONLY_LIBRARY_ONCE, older.wholes(last)),)
