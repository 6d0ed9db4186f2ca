"""A plan as constants of C, linked into an exported file, for programs without Python.

``tvm_ios_model.c`` runs it; ``model_image.h`` says what it holds.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR
from tvm_ios.runtime.base.tvm_abi import data_type_fields
from tvm_ios.runtime.cpu.lane_executor import dependency_order
from tvm_ios.runtime.cpu.lane_pool import LaneOptions, join_rows
from tvm_ios.support.c_compiler import find_c_compiler

__all__ = ["C_API_FOLDER", "compile_beside", "compile_image"]

_LOG = logging.getLogger(__name__)

C_API_FOLDER = LANE_EXECUTOR.path.parent
"""Folder of ``tvm_ios.h`` and ``tvm_ios_model.c``, with which C programs are built."""
# model_image.h has the same number as MODEL_IMAGE_VERSION.
_VERSION = 3
_KINDS = {BufferKind.ARENA: 0, BufferKind.INPUT: 1, BufferKind.OUTPUT: 2}


def compile_image(
    plan: ExecutionPlan,
    parameters: Collection[str],
    features: Sequence[str],
    folder: Path,
    *,
    on_cpu: bool,
    function: str | None = None,
) -> Path:
    """An object file with the plan as ``tvm_ios_model_image``, written beside its C source.

    ``parameters`` are names of inputs, and ``features`` those that ``/proc/cpuinfo`` has for the
    instruction sets of the kernels. ``function`` is the C function that makes calls of an operator
    library; None where there is none.
    """
    refused = _refusal(plan, on_cpu=on_cpu, makes_calls=function is not None)
    source = _image_source(plan, parameters, features, refused, function)
    return compile_beside(folder / "model_image.c", source)


def compile_beside(path: Path, text: str) -> Path:
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
        raise ArtifactError(f"the plan cannot be compiled: {done.stderr.strip()}")
    return product


def _refusal(plan: ExecutionPlan, *, on_cpu: bool, makes_calls: bool) -> str:
    """Reason why only Python can run a plan; empty where C can."""
    if not on_cpu:
        return "it runs on a GPU, whose streams are issued from Python"
    if makes_calls:
        return ""
    libraries = {launch.call.library.title for launch in plan.launches if launch.call is not None}
    return f"{' and '.join(sorted(libraries))} computes operators of it" if libraries else ""


def _image_source(
    plan: ExecutionPlan,
    parameters: Collection[str],
    features: Sequence[str],
    refused: str,
    function: str | None,
) -> str:
    groups, successors, homes = dependency_order(plan)
    positions, rows = join_rows(groups, "i")
    edges, edge_rows = join_rows(successors, "i")
    options = LaneOptions()
    buffers = [
        f"{{{_KINDS[each.kind]}, {each.size_bytes}, {each.arena_offset or 0}}}"
        for each in plan.buffers
    ]
    inputs = [
        f"{{{_text(each.name)}, {each.tensor}, {int(each.name in parameters)}}}"
        for each in plan.inputs
    ]
    lines = ['#include "model_image.h"']
    for number, tensor in enumerate(plan.tensors):
        lines.append(_array("int64_t", f"shape_{number}", tensor.shape))
    tensors = []
    for number, tensor in enumerate(plan.tensors):
        code, bits, vector_lanes = data_type_fields(tensor.dtype)
        tensors.append(
            f"{{{tensor.buffer}, {len(tensor.shape)}, {tensor.byte_offset}, {tensor.size_bytes}, "
            f"shape_{number}, {_text(tensor.dtype)}, {code}, {bits}, {vector_lanes}}}"
        )
    launches = []
    calls = 0
    for number, launch in enumerate(plan.launches):
        touched = (*launch.inputs, *launch.outputs)
        lines.append(_array("int32_t", f"launch_{number}", touched))
        kernel, call = launch.kernel, -1
        if launch.call is not None and function is not None:
            kernel, call, calls = function, calls, calls + 1
        launches.append(
            f"{{{_text(launch.operator)}, {_text(kernel)}, launch_{number}, {len(touched)}, "
            f"{int(not launch.split)}, {call}}}"
        )
    lines += [
        _array("ImageBuffer", "buffers", buffers),
        _array("ImageTensor", "tensors", tensors),
        _array("ImageInput", "inputs", inputs),
        _array("int32_t", "outputs", plan.outputs),
        _array("ImageLaunch", "launches", launches),
        _array("int32_t", "positions", positions),
        _array("int32_t", "rows", rows),
        _array("int32_t", "successor_rows", edge_rows),
        _array("int32_t", "successors", edges),
        _array("int32_t", "homes", homes),
        "const ModelImage tvm_ios_model_image = {"  # in the order of model_image.h
        f"{_VERSION}, {plan.lanes}, {_text(refused)}, {_text(' '.join(features))}, "
        f"{plan.arena_bytes}, {len(plan.buffers)}, {len(plan.tensors)}, {len(plan.inputs)}, "
        f"{len(plan.outputs)}, {len(plan.launches)}, {len(plan.groups)}, {calls}, "
        f"{options.tasks_per_lane}, {options.spin_us * 1000}, buffers, tensors, inputs, outputs, "
        "launches, positions, rows, successor_rows, successors, homes};",
    ]
    return "\n".join(lines) + "\n"


def _array(kind: str, name: str, values: Iterable[object]) -> str:
    """C text of a constant array; an empty one gets one element, as C has no empty arrays."""
    return f"static const {kind} {name}[] = {{{', '.join(map(str, values)) or '0'}}};"


def _text(value: str) -> str:
    """C text of a string in UTF-8, every byte that is not printable ASCII as an octal number."""
    # An octal number ends after three digits; a hexadecimal one would take digits behind it along.
    # Two question marks may begin a trigraph.
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in value.encode()
    )
    return f'"{plain}"'
