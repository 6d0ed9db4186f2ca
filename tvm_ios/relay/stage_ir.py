"""Schedules in Relay: written as :mod:`tvm_ios.core.stage_attributes` says, and read back.

A stage function also carries ``Inline=1``, so that plain ``relay.build`` inlines it and the module
still runs. Relay text keeps attributes of functions but loses those of modules, so the module
itself has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.stage_attributes import (
    PlacedKernel,
    has_schedule,
    is_stage,
    kernels_of_stage,
    require_version,
    schedule_from,
)
from tvm_ios.errors import ModelError
from tvm_ios.relay.dataflow import copy_call, has_main, kernel_calls, rebuild, resolve_field

__all__ = [
    "FlatModule",
    "flatten",
    "is_partitioned",
    "read_schedule",
    "with_attributes",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatModule:
    """Partitioned module with its stages inlined, and the place of every kernel."""

    module: tvm.IRModule
    kernels: tuple[PlacedKernel, ...]
    """Kernels in the order of their calls in ``main``."""


def is_partitioned(module: tvm.IRModule) -> bool:
    """True if a schedule has been written into a module."""
    return has_main(module) and has_schedule(module["main"].attrs)


def with_attributes(function: relay.Function, attributes: dict[str, str | int]) -> relay.Function:
    """Function with further attributes."""
    for name, value in attributes.items():
        stored = tvm.tir.IntImm("int32", value) if isinstance(value, int) else value
        function = function.with_attr(name, stored)
    return function


def flatten(module: tvm.IRModule) -> FlatModule:
    """Partitioned module with its stages inlined, and the place of every kernel."""
    _require_partitioned(module)
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
            if variable.name_hint != "main" and not is_stage(getattr(function, "attrs", None))
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
    _require_partitioned(module)
    stages = {
        variable.name_hint: function.attrs
        for variable, function in module.functions.items()
        if is_stage(getattr(function, "attrs", None))
    }
    return schedule_from(module["main"].attrs, stages)


def _require_partitioned(module: tvm.IRModule) -> None:
    if not is_partitioned(module):
        raise ModelError(
            "the module is not partitioned into stages; apply tvm_ios.relay.rewrite or the pass "
            "ScheduleOperators first"
        )
    require_version(module["main"].attrs)


def _inline_stage(
    where: str,
    function: relay.Function,
    arguments: list[relay.Expr],
    placed: dict[relay.Expr, PlacedKernel],
) -> relay.Expr:
    if not is_stage(getattr(function, "attrs", None)):
        raise ModelError(f"main calls {where}, which is no stage; schedule the module again")
    kernels = kernels_of_stage(function.attrs, where)
    calls = kernel_calls(function.body)
    if len(kernels) != len(calls):
        raise ModelError(
            f"stage function {where} lists {len(kernels)} operators but calls {len(calls)} "
            "kernels; a later pass changed it, so schedule the module again"
        )
    kernel_of = dict(zip(calls, kernels, strict=True))

    def place(call: relay.Call, new_arguments: list[relay.Expr]) -> relay.Expr:
        made = copy_call(call, new_arguments)
        placed[made] = kernel_of[call]
        return made

    known: dict[relay.Expr, relay.Expr] = dict(zip(function.params, arguments, strict=True))
    return rebuild(function.body, known, place)
