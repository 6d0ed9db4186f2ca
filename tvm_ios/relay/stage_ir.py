"""Schedules in Relay: their attributes, and reading them back.

``main`` calls one global function a stage, in order. A stage function carries

- ``Inline=1``, so that plain ``relay.build`` inlines it and the module still runs;
- ``tvm_ios_stage`` (its number) and ``tvm_ios_strategy`` (``concurrent`` or ``merge``);
- ``tvm_ios_operators``: names of the kernels in its body, in post-order;
- ``tvm_ios_groups``: names by group, ``a -> b | c``.

``main`` carries ``tvm_ios_version``, the graph's name, fingerprint and operator names, the
scheduler, the predicted latency, its source unless measured, the time of each operator alone, the
operators on one lane, and, where chosen, those that an operator library computes:
``tvm_ios_libraries``, such as ``cudnn: a, b | other: c``. A list has the lane of each operator,
``tvm_ios_home_lanes``. Relay text keeps attributes of functions but loses those of modules, so the
module itself has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import tvm
from tvm import relay

from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage, Strategy
from tvm_ios.errors import ModelError
from tvm_ios.relay.dataflow import copy_call, has_main, kernel_calls, rebuild, resolve_field

__all__ = [
    "STAGE_IR_VERSION",
    "FlatModule",
    "PlacedKernel",
    "flatten",
    "is_partitioned",
    "main_attributes",
    "read_schedule",
    "stage_attributes",
    "with_attributes",
]

STAGE_IR_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedKernel:
    """Place of one kernel call of a partitioned module."""

    name: str
    members: tuple[str, ...]
    """Names of the operators it computes: several for a merged convolution, none for a copy of its
    slice."""
    stage: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatModule:
    """Partitioned module with its stages inlined, and the place of every kernel."""

    module: tvm.IRModule
    kernels: tuple[PlacedKernel, ...]
    """Kernels in the order of their calls in ``main``."""


def is_partitioned(module: tvm.IRModule) -> bool:
    """True if a schedule has been written into a module."""
    if not has_main(module):
        return False
    attributes = module["main"].attrs
    return attributes is not None and "tvm_ios_version" in attributes


def with_attributes(function: relay.Function, attributes: dict[str, str | int]) -> relay.Function:
    """Function with further attributes."""
    for name, value in attributes.items():
        stored = tvm.tir.IntImm("int32", value) if isinstance(value, int) else value
        function = function.with_attr(name, stored)
    return function


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
        "Inline": 1,
        "tvm_ios_stage": number,
        "tvm_ios_strategy": strategy.value,
        "tvm_ios_operators": ", ".join(operators),
        "tvm_ios_groups": " | ".join(" -> ".join(group) for group in groups),
    }


def flatten(module: tvm.IRModule) -> FlatModule:
    """Partitioned module with its stages inlined, and the place of every kernel."""
    _require_version(module)
    main = module["main"]
    placed: dict[relay.Expr, PlacedKernel] = {}

    def inline(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if not isinstance(call.op, relay.GlobalVar):
            raise ModelError(
                "main of a partitioned module calls a kernel outside every stage; "
                "schedule the module again"
            )
        return _inline_stage(call.op.name_hint, module[call.op], arguments, placed)

    # A field of a stage's result becomes the field itself, so the tuple vanishes.
    body = resolve_field(rebuild(main.body, {}, inline))
    flat = tvm.IRModule(
        {
            variable: function
            for variable, function in module.functions.items()
            if variable.name_hint != "main" and not _is_stage(function)
        },
        module.type_definitions,
    )
    flat["main"] = relay.Function(main.params, body, main.ret_type)
    kernels = tuple(placed[call] for call in kernel_calls(body))
    return FlatModule(module=relay.transform.InferType()(flat), kernels=kernels)


def read_schedule(module: tvm.IRModule) -> InterOpSchedule:
    """Schedule that was written into a partitioned module.

    Raises
    ------
    ModelError
        If the module is not partitioned or its attributes contradict each other.
    """
    _require_version(module)
    attributes = module["main"].attrs
    names = _split(_text(attributes, "tvm_ios_operators", "main"), ", ")
    index_of = {name: index for index, name in enumerate(names)}
    stages = {}
    for variable, function in module.functions.items():
        if not _is_stage(function):
            continue
        groups = _group_names(function, variable.name_hint)
        unknown = [name for group in groups for name in group if name not in index_of]
        if unknown:
            raise ModelError(
                f"stage function {variable.name_hint} names operator {unknown[0]!r}, which main "
                "does not list; schedule the module again"
            )
        stages[_whole(function.attrs, "tvm_ios_stage", variable.name_hint)] = Stage(
            tuple(tuple(index_of[name] for name in group) for group in groups),
            _strategy(function, variable.name_hint),
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


def _require_version(module: tvm.IRModule) -> None:
    if not is_partitioned(module):
        raise ModelError(
            "the module is not partitioned into stages; apply tvm_ios.relay.rewrite or the pass "
            "ScheduleOperators first"
        )
    version = _whole(module["main"].attrs, "tvm_ios_version", "main")
    if version != STAGE_IR_VERSION:
        raise ModelError(
            f"the module was partitioned by version {version} of the stage attributes, this "
            f"tvm-ios reads version {STAGE_IR_VERSION}; schedule the original module again"
        )


def _is_stage(function: relay.Function) -> bool:
    attributes = getattr(function, "attrs", None)
    return attributes is not None and "tvm_ios_stage" in attributes


def _inline_stage(
    where: str,
    function: relay.Function,
    arguments: list[relay.Expr],
    placed: dict[relay.Expr, PlacedKernel],
) -> relay.Expr:
    if not _is_stage(function):
        raise ModelError(f"main calls {where}, which is no stage; schedule the module again")
    names = _split(_text(function.attrs, "tvm_ios_operators", where), ", ")
    calls = kernel_calls(function.body)
    if len(names) != len(calls):
        raise ModelError(
            f"stage function {where} lists {len(names)} operators but calls {len(calls)} kernels; "
            "a later pass changed it, so schedule the module again"
        )
    is_merge = _strategy(function, where) is Strategy.MERGE
    groups = _group_names(function, where)
    # A merge stage has one group: its convolution, then what is copied out of the result.
    members: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    if is_merge:
        members = {names[0]: tuple(chain.from_iterable(groups))}
    group_of = {
        name: 0 if is_merge else position for position, group in enumerate(groups) for name in group
    }
    number = _whole(function.attrs, "tvm_ios_stage", where)
    name_of = dict(zip(calls, names, strict=True))

    def place(call: relay.Call, new_arguments: list[relay.Expr]) -> relay.Expr:
        made = copy_call(call, new_arguments)
        name = name_of[call]
        placed[made] = PlacedKernel(
            name=name,
            members=members.get(name, ()),
            stage=number,
            group=group_of.get(name, 0),
        )
        return made

    known: dict[relay.Expr, relay.Expr] = dict(zip(function.params, arguments, strict=True))
    return rebuild(function.body, known, place)


def _libraries_text(libraries: Sequence[LibraryOperators], names: Sequence[str]) -> str:
    return " | ".join(
        f"{row.library}: {', '.join(names[index] for index in row.operators)}" for row in libraries
    )


def _libraries(
    attributes: tvm.ir.Attrs, index_of: Mapping[str, int]
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


def _group_names(function: relay.Function, where: str) -> list[list[str]]:
    text = _text(function.attrs, "tvm_ios_groups", where)
    return [_split(group, " -> ") for group in _split(text, " | ")]


def _text(attributes: tvm.ir.Attrs, name: str, where: str) -> str:
    if attributes is None or name not in attributes:
        raise ModelError(f"{where} lacks the attribute {name!r}; schedule the module again")
    return str(attributes[name])


def _whole(attributes: tvm.ir.Attrs, name: str, where: str) -> int:
    return _number(_text(attributes, name, where), name, where)


def _number(text: str, name: str, where: str) -> int:
    if not text.isdecimal():
        raise ModelError(
            f"{where} has {text!r} in the attribute {name!r}, where a whole number belongs; "
            "schedule the module again"
        )
    return int(text)


def _numbers(attributes: tvm.ir.Attrs, name: str, where: str) -> tuple[int, ...]:
    listed = _split(_text(attributes, name, where), ", ")
    return tuple(_number(text, name, where) for text in listed)


def _strategy(function: relay.Function, where: str) -> Strategy:
    text = _text(function.attrs, "tvm_ios_strategy", where)
    if text not in {strategy.value for strategy in Strategy}:
        raise ModelError(f"{where} has the unknown strategy {text!r}; schedule the module again")
    return Strategy(text)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if text else []
