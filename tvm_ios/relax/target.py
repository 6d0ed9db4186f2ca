"""Targets of Relax: CPUs and GPUs of NVIDIA, in the form that TVM 0.27 reads.

It no longer reads command lines such as ``llvm -mcpu=haswell``; with an ``mcpu`` that its LLVM does
not know it compiles for a processor of the last century, and only prints a line about it.
"""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import Any

import tvm

from tvm_ios.errors import ModelError
from tvm_ios.host import host_target as host_words
from tvm_ios.host.processor import ROUNDING, has_bfloat16
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["host_target", "resolve_target"]


def resolve_target(target: Any) -> tvm.target.Target:
    """Target from a :class:`tvm.target.Target`, its JSON form, or a command line of TVM 0.17.

    None means this machine's processor. That of a GPU has a host.

    Raises
    ------
    ModelError
        If TVM does not have the target, its LLVM does not know the processor, or it is neither a
        CPU nor a GPU of NVIDIA.
    """
    if target is None:
        return host_target()
    try:
        chosen = tvm.target.Target(_options(target) if isinstance(target, str) else target)
    except (ValueError, TypeError, RuntimeError) as error:
        said = str(error).splitlines()[0]
        raise ModelError(
            f"TVM does not have target {target!r}: {said}; give one such as "
            '{"kind": "llvm", "mcpu": "haswell"}'
        ) from error
    if is_gpu_target(chosen):
        return chosen if chosen.host is not None else tvm.target.Target(chosen, host="llvm")
    if chosen.kind.name != "llvm":
        raise ModelError(
            f"target {str(chosen)!r} is neither a CPU nor a GPU of NVIDIA; give "
            '{"kind": "llvm"} or {"kind": "cuda", "arch": "sm_90"}'
        )
    processor = str(chosen.attrs.get("mcpu", ""))
    if processor and processor not in _known_processors():
        raise ModelError(
            f"the LLVM {tvm.target.codegen.llvm_version_major()} of this TVM does not know the "
            f"processor {processor!r}; give another mcpu, such as that of "
            f"{str(host_target())!r}"
        )
    return chosen


def rounding_target(target: tvm.target.Target) -> tvm.target.Target:
    """Target whose kernels may round vectors to bfloat16, if this processor does; else the same."""
    processor = ROUNDING.get(str(target.attrs.get("mcpu", "")))
    if processor is None or not has_bfloat16():
        return target
    return tvm.target.Target({**json.loads(str(target)), "mcpu": processor})


@cache
def host_target() -> tvm.target.Target:
    """Best target for this processor that this TVM's LLVM knows."""
    return tvm.target.Target(host_words())


@cache
def _known_processors() -> frozenset[str]:
    """Processors that this TVM's LLVM knows, of the architecture it runs on."""
    return frozenset(map(str, tvm.target.codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm"))))


def _options(line: str) -> dict[str, Any]:
    """Options of a target in JSON, or of a command line such as ``llvm -mattr=+f16c,+fma``."""
    if line.startswith("{"):
        options: dict[str, Any] = json.loads(line)
        return options
    kind, *words = shlex.split(line)
    pairs = [word.lstrip("-").partition("=") for word in words]
    listed = {"mattr", "keys"}
    return {
        "kind": kind,
        **{
            name: value.split(",") if name in listed else int(value) if value.isdecimal() else value
            for name, _, value in pairs
        },
    }
