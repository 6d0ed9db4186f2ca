"""Native code of the operator libraries of a model, for its exported file."""

from __future__ import annotations

import logging
import shlex
import subprocess
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.native_runtime import C_API_FOLDER
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.support.c_compiler import find_c_compiler

__all__ = ["LibraryCode", "native_code"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCode:
    """Object files of operator libraries to link, and the C function that makes their calls."""

    objects: tuple[Path, ...] = ()
    function: str | None = None
    """Name of the C function that makes the calls of the only library; None where there is no such
    library, and where only Python makes its calls ready."""


def native_code(plan: ExecutionPlan, folder: Path) -> LibraryCode:
    """Native code that the operator libraries of a plan need, compiled in a folder."""
    calls = [launch.call for launch in plan.launches if launch.call is not None]
    keys = sorted({call.library.key for call in calls})
    libraries = [library for library in map(find_library, keys) if library is not None]
    if len(libraries) == 1:
        program = libraries[0].program([call.descriptor for call in calls])
        code = libraries[0].native_object()
        if program is not None and code is not None:
            made = _compile_beside(folder / "library_calls.c", _data_source(program.calls))
            return LibraryCode(objects=(code, made), function=program.function)
    objects = [library.native_object() for library in libraries]
    return LibraryCode(objects=tuple(path for path in objects if path is not None))


def _data_source(calls: Sequence[bytes]) -> str:
    """C source of the number of calls and of each call's data, with its size in bytes before it."""
    numbers = array("q", [len(calls)])
    for data in calls:
        numbers.append(len(data))
        numbers.frombytes(data)
    values = ", ".join(map(str, numbers))
    return f"#include <stdint.h>\nconst int64_t tvm_ios_calls_data[] = {{{values}}};\n"


def _compile_beside(path: Path, text: str) -> Path:
    """The object file of C code; both are written beside each other."""
    path.write_text(text)
    product = path.with_suffix(".o")
    options = ("-std=gnu11", "-fPIC", "-O1", "-c", f"-I{C_API_FOLDER}")
    command = (*find_c_compiler(), *options, str(path))
    _LOG.debug("runs %s", shlex.join([*command, "-o", str(product)]))
    done = subprocess.run(
        [*command, "-o", str(product)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ArtifactError(
            f"the calls of operator libraries cannot be compiled: {done.stderr.strip()}"
        )
    return product
