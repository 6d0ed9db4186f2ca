"""Schedules as attributes of functions: how a partitioned module of any dialect says them.

``main`` calls one global function a stage, in order. A stage function carries

- ``tvm_ios_stage`` (its number) and ``tvm_ios_strategy`` (``concurrent`` or ``merge``);
- ``tvm_ios_operators``: names of the kernels in its body, in the order of their calls;
- ``tvm_ios_groups``: names by group, ``a -> b | c``.

``main`` carries ``tvm_ios_version``, the graph's name, fingerprint and operator names, the
scheduler, the predicted latency, its source unless measured, the time of each operator alone, the
operators on one lane, and, where chosen, those that an operator library computes:
``tvm_ios_libraries``, such as ``cudnn: a, b | other: c``. A list has the lane of each operator,
``tvm_ios_home_lanes``. No TVM here: attributes are a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.errors import ModelError

__all__ = [
    "STAGE_IR_VERSION",
    "PlacedKernel",
    "has_schedule",
    "is_stage",
    "kernels_of_stage",
    "kernels_one_by_one",
    "main_attributes",
    "require_version",
    "schedule_from",
    "stage_attributes",
]

STAGE_IR_VERSION = 1


class Attributes(Protocol):
    """Attributes of a function, by name."""

    def __contains__(self, name: str, /) -> bool:
        """True if there is an attribute of this name."""

    def __getitem__(self, name: str, /) -> Any:
        """Attribute of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedKernel:
    """Place of one kernel call of a partitioned module."""

    name: str
    members: tuple[str, ...]
    """Names of the operators it computes: several for a merged convolution, none for a copy of its
    slice."""
    stage: int
    group: int


def has_schedule(attributes: Attributes | None) -> bool:
    """True if these are attributes of a ``main`` that a schedule has been written into."""
    return attributes is not None and "tvm_ios_version" in attributes


def is_stage(attributes: Attributes | None) -> bool:
    """True if these are attributes of a stage function."""
    return attributes is not None and "tvm_ios_stage" in attributes


def main_attributes(schedule: InterOpSchedule) -> dict[str, str | int]:
    """Attributes of ``main`` in a partitioned module."""
    return {
        "tvm_ios_version": STAGE_IR_VERSION,
        "tvm_ios_graph": schedule.graph_name,
        "tvm_ios_fingerprint": schedule.graph_fingerprint,
        "tvm_ios_scheduler": schedule.scheduler,
        "tvm_ios_latency_ns": "" if schedule.latency_ns is None else str(schedule.latency_ns),
        **({"tvm_ios_priced_by": schedule.priced_by} if schedule.priced_by else {}),
        "tvm_ios_operators": ", ".join(schedule.operator_names),
        "tvm_ios_operator_ns": ", ".join(map(str, schedule.operator_ns)),
        "tvm_ios_unsplit": ", ".join(schedule.operator_names[i] for i in schedule.unsplit),
        **(
            {}
            if schedule.libraries is None
            else {"tvm_ios_libraries": _libraries_text(schedule.libraries, schedule.operator_names)}
        ),
        **(
            {"tvm_ios_home_lanes": ", ".join(map(str, schedule.home_lanes))}
            if schedule.home_lanes
            else {}
        ),
    }


def stage_attributes(
    number: int, strategy: Strategy, groups: list[list[str]], operators: list[str]
) -> dict[str, str | int]:
    """Attributes of one stage function."""
    return {
        "tvm_ios_stage": number,
        "tvm_ios_strategy": strategy.value,
        "tvm_ios_operators": ", ".join(operators),
        "tvm_ios_groups": " | ".join(" -> ".join(group) for group in groups),
    }


def schedule_from(
    attributes: Attributes, stage_functions: Mapping[str, Attributes]
) -> InterOpSchedule:
    """Schedule from attributes of ``main`` and of the stage functions, by name.

    Raises
    ------
    ModelError
        If they are of another version or contradict each other.
    """
    require_version(attributes)
    names = _split(_text(attributes, "tvm_ios_operators", "main"), ", ")
    index_of = {name: index for index, name in enumerate(names)}
    stages = {}
    for where, stage in stage_functions.items():
        groups = _group_names(stage, where)
        unknown = [name for group in groups for name in group if name not in index_of]
        if unknown:
            raise ModelError(
                f"stage function {where} names operator {unknown[0]!r}, which main "
                "does not list; schedule the module again"
            )
        stages[_whole(stage, "tvm_ios_stage", where)] = Stage(
            tuple(tuple(index_of[name] for name in group) for group in groups),
            _strategy(stage, where),
        )
    if sorted(stages) != list(range(len(stages))):
        raise ModelError(f"the stage numbers are {sorted(stages)}; schedule the module again")
    has_latency = bool(_text(attributes, "tvm_ios_latency_ns", "main"))
    return InterOpSchedule(
        graph_name=_text(attributes, "tvm_ios_graph", "main"),
        graph_fingerprint=_text(attributes, "tvm_ios_fingerprint", "main"),
        operator_names=tuple(names),
        stages=tuple(stages[number] for number in range(len(stages))),
        scheduler=_text(attributes, "tvm_ios_scheduler", "main"),
        latency_ns=_whole(attributes, "tvm_ios_latency_ns", "main") if has_latency else None,
        priced_by=str(attributes["tvm_ios_priced_by"]) if "tvm_ios_priced_by" in attributes else "",
        operator_ns=_numbers(attributes, "tvm_ios_operator_ns", "main"),
        unsplit=_indices(_text(attributes, "tvm_ios_unsplit", "main"), "unsplit", index_of),
        libraries=_libraries(attributes, index_of),
        home_lanes=_numbers(attributes, "tvm_ios_home_lanes", "main")
        if "tvm_ios_home_lanes" in attributes
        else (),
    )


def require_version(attributes: Attributes) -> None:
    """Refuse attributes of ``main`` that another version wrote."""
    version = _whole(attributes, "tvm_ios_version", "main")
    if version != STAGE_IR_VERSION:
        raise ModelError(
            f"the module was partitioned by version {version} of the stage attributes, this "
            f"tvm-ios reads version {STAGE_IR_VERSION}; schedule the original module again"
        )


def kernels_of_stage(attributes: Attributes, where: str) -> tuple[PlacedKernel, ...]:
    """Places of the kernels of a stage function of this name, in the order of their calls."""
    names = _split(_text(attributes, "tvm_ios_operators", where), ", ")
    is_merge = _strategy(attributes, where) is Strategy.MERGE
    groups = _group_names(attributes, where)
    # A merge stage has one group: its convolution, then what is copied out of the result.
    members: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    if is_merge:
        members = {names[0]: tuple(chain.from_iterable(groups))}
    group_of = {
        name: 0 if is_merge else position for position, group in enumerate(groups) for name in group
    }
    number = _whole(attributes, "tvm_ios_stage", where)
    return tuple(
        PlacedKernel(
            name=name,
            members=members.get(name, ()),
            stage=number,
            group=group_of.get(name, 0),
        )
        for name in names
    )


def kernels_one_by_one(names: Sequence[str]) -> tuple[PlacedKernel, ...]:
    """Places of the operators of a model without stages, each in one of its own."""
    return tuple(
        PlacedKernel(name=name, members=(name,), stage=number, group=0)
        for number, name in enumerate(names)
    )


def _libraries_text(libraries: Sequence[LibraryOperators], names: Sequence[str]) -> str:
    return " | ".join(
        f"{row.library}: {', '.join(names[index] for index in row.operators)}" for row in libraries
    )


def _libraries(
    attributes: Attributes, index_of: Mapping[str, int]
) -> tuple[LibraryOperators, ...] | None:
    """Operators of each library; older modules have cuDNN's in an attribute of their own."""
    if "tvm_ios_cudnn" in attributes:
        listed = _text(attributes, "tvm_ios_cudnn", "main")
        return (LibraryOperators("cudnn", _indices(listed, "cudnn", index_of)),)
    if "tvm_ios_libraries" not in attributes:
        return None
    rows = [
        row.partition(": ") for row in _split(_text(attributes, "tvm_ios_libraries", "main"), " | ")
    ]
    return tuple(
        LibraryOperators(library, _indices(listed, library, index_of))
        for library, _, listed in rows
    )


def _indices(text: str, role: str, index_of: Mapping[str, int]) -> tuple[int, ...]:
    """Indices of the operators that a text lists, for a role such as ``unsplit``."""
    listed = _split(text, ", ")
    unknown = [name for name in listed if name not in index_of]
    if unknown:
        raise ModelError(
            f"main names the {role} operator {unknown[0]!r}, which it does not list; "
            "schedule the module again"
        )
    return tuple(sorted(index_of[name] for name in listed))


def _group_names(attributes: Attributes, where: str) -> list[list[str]]:
    text = _text(attributes, "tvm_ios_groups", where)
    return [_split(group, " -> ") for group in _split(text, " | ")]


def _text(attributes: Attributes, name: str, where: str) -> str:
    if name not in attributes:
        raise ModelError(f"{where} lacks the attribute {name!r}; schedule the module again")
    return str(attributes[name])


def _whole(attributes: Attributes, name: str, where: str) -> int:
    return _number(_text(attributes, name, where), name, where)


def _number(text: str, name: str, where: str) -> int:
    if not text.isdecimal():
        raise ModelError(
            f"{where} has {text!r} in the attribute {name!r}, where a whole number belongs; "
            "schedule the module again"
        )
    return int(text)


def _numbers(attributes: Attributes, name: str, where: str) -> tuple[int, ...]:
    listed = _split(_text(attributes, name, where), ", ")
    return tuple(_number(text, name, where) for text in listed)


def _strategy(attributes: Attributes, where: str) -> Strategy:
    text = _text(attributes, "tvm_ios_strategy", where)
    if text not in {strategy.value for strategy in Strategy}:
        raise ModelError(f"{where} has the unknown strategy {text!r}; schedule the module again")
    return Strategy(text)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if text else []
