"""Calls of operator libraries in place of kernels, as a schedule of either dialect chose them."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placed_kernels import PlacedKernels
from tvm_ios.plan.placement import Placement
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.placed_calls import with_library_calls
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["with_chosen_calls"]


def with_chosen_calls(
    staged: PlacedKernels,
    placements: Sequence[Placement],
    schedule: InterOpSchedule,
    libraries: Sequence[OperatorLibrary],
) -> Sequence[Placement]:
    """Placements with the calls of operator libraries that a schedule wants.

    Raises
    ------
    ScheduleError
        If the schedule uses an operator library for another kind of target, or an unknown one.
    """
    _require_libraries_of(staged.target, schedule)
    if not libraries:
        return placements
    chosen = None
    if schedule.libraries is not None:
        chosen = {
            row.library: {schedule.operator_names[index] for index in row.operators}
            for row in schedule.libraries
        }
    functions, members = staged.describe(), staged.members
    return with_library_calls(placements, functions, members, libraries, chosen)


def _require_libraries_of(target: tvm.target.Target, schedule: InterOpSchedule) -> None:
    """Refuse a schedule that uses an operator library for another kind of target."""
    for row in schedule.libraries or ():
        library = find_library(row.library)
        if not row.operators or (library is not None and library.target_kind == target.kind.name):
            continue
        title = row.library if library is None else library.name.title
        first = schedule.operator_names[row.operators[0]]
        because = "which this tvm-ios does not know" if library is None else _other_kind(target)
        raise ScheduleError(
            f"the schedule has {title} compute {len(row.operators)} operators, the first is "
            f"{first!r}, {because}"
        )


def _other_kind(target: tvm.target.Target) -> str:
    here, there = ("a GPU", "a CPU") if is_gpu_target(target) else ("a CPU", "a GPU")
    return (
        f"but target {str(target)!r} is {here}; compile for {there}, or search again for this "
        "target"
    )
