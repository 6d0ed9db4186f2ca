"""Calls of operator libraries that compute fused functions, and their placement.

Goes after ``extract``, before lowering. Each library knows itself which functions it computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tvm import relay

from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.placement import Placement
from tvm_ios.relay.functions.fused_function import describe_function
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["library_calls", "with_library_calls"]


def library_calls(
    calls: Sequence[relay.Call], library: OperatorLibrary
) -> tuple[LibraryCall | None, ...]:
    """Calls of a library in place of kernel calls, in order; None where it cannot compute one."""
    return tuple(
        _library_call(call, library) if isinstance(call.op, relay.Function) else None
        for call in calls
    )


def with_library_calls(
    placements: Sequence[Placement],
    calls: Sequence[relay.Call],
    members: Sequence[Collection[str]],
    libraries: Sequence[OperatorLibrary],
    chosen: Mapping[str, Collection[str]] | None = None,
) -> tuple[Placement, ...]:
    """Placements of operators, with calls for those that operator libraries are to compute.

    Parameters
    ----------
    members
        Names of the operators that each kernel call computes: several for a merged convolution,
        none for a copy of its slice.
    chosen
        For each library, by its key, names of the operators it is to compute, if it can. Where
        omitted, the first library that can computes an operator. A merged convolution is chosen
        where all its members are.
    """
    placed = list(placements)
    for library in libraries:
        wanted = None if chosen is None else set(chosen.get(library.name.key, ()))
        for index, call in enumerate(library_calls(calls, library)):
            if call is None or placed[index].call is not None:
                continue
            if wanted is None or (members[index] and wanted.issuperset(members[index])):
                placed[index] = replace(placed[index], call=call)
    return tuple(placed)


def _library_call(call: relay.Call, library: OperatorLibrary) -> LibraryCall | None:
    described = describe_function(call.op)
    if described is None:
        return None
    constants = [n for n, argument in enumerate(call.args) if isinstance(argument, relay.Constant)]
    descriptor = library.match(replace(described, constants=frozenset(constants)))
    return None if descriptor is None else LibraryCall(library.name, descriptor)
