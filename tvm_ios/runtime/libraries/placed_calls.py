"""Calls of operator libraries that compute fused functions, and their placement.

Goes after a dialect has described its functions, before lowering. Each library knows itself which
functions it computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.placement import Placement
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["library_calls", "with_library_calls"]


def library_calls(
    functions: Sequence[FusedFunction | None], library: OperatorLibrary
) -> tuple[LibraryCall | None, ...]:
    """Calls of a library for functions, in order; None where it cannot compute one.

    A function that no dialect could describe is None.
    """
    return tuple(
        None if function is None else _library_call(function, library) for function in functions
    )


def with_library_calls(
    placements: Sequence[Placement],
    functions: Sequence[FusedFunction | None],
    members: Sequence[Collection[str]],
    libraries: Sequence[OperatorLibrary],
    chosen: Mapping[str, Collection[str]] | None = None,
) -> tuple[Placement, ...]:
    """Placements of operators, with calls for those that operator libraries are to compute.

    Parameters
    ----------
    functions
        Functions that the kernel calls compute.
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
        for index, call in enumerate(library_calls(functions, library)):
            if call is None or placed[index].call is not None:
                continue
            if wanted is None or (members[index] and wanted.issuperset(members[index])):
                placed[index] = replace(placed[index], call=call)
    return tuple(placed)


def _library_call(function: FusedFunction, library: OperatorLibrary) -> LibraryCall | None:
    descriptor = library.match(function)
    return None if descriptor is None else LibraryCall(library.name, descriptor)
