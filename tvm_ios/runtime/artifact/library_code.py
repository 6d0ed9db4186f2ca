"""Native code and calls of the operator libraries of a model, for its exported file."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.protocol import CallProgram

__all__ = ["native_code"]


def native_code(plan: ExecutionPlan) -> tuple[list[Path], CallProgram | None]:
    """Object files of the operator libraries of a plan, and the calls of the only one for C.

    None where no library or several compute, and where only Python makes the calls ready.
    """
    calls = [launch.call for launch in plan.launches if launch.call is not None]
    found = map(find_library, sorted({call.library.key for call in calls}))
    libraries = [library for library in found if library is not None]
    objects = [library.native_object() for library in libraries]
    program = None
    if len(libraries) == 1 and objects[0] is not None:
        program = libraries[0].program([call.descriptor for call in calls])
    return [path for path in objects if path is not None], program
