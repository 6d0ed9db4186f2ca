"""Code generation: from one lowered kernel to machine code, in this process or in a worker."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm.contrib import nvcc
from tvm.ir.transform import PassContext

from tvm_ios.kernels.archive import pack_kernel
from tvm_ios.kernels.cuda_source import mended_cuda_source, users_hook
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.kernels.lowering_context import LOWER_PASSES, nested_context

__all__ = ["CodeGeneration", "compilers", "cuda_compiler", "generate", "generate_in_worker"]

KEEP_BUFFERS = "tir.disable_storage_rewrite"
"""Option of a PassContext that leaves buffers of a kernel where they are."""
ENTRY_VERSION = 1
"""Version of the archives; entries of another version are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeGeneration:
    """Everything that machine code depends on besides the lowered kernel.

    Plain values, so that it can be sent to another process.
    """

    target: str
    """TVM's JSON of the target, with its host."""
    opt_level: int
    required: tuple[str, ...]
    disabled: tuple[str, ...]
    config: tuple[tuple[str, str], ...]
    """Options of the PassContext for passes on TIR, as JSON of TVM, sorted."""
    portable: bool
    """True if another process, or a later call, would do the same: not with passes of the user's
    own, instruments that watch them, or hooks of CUDA's compiler in force."""

    @classmethod
    def current(cls, target: tvm.target.Target) -> CodeGeneration:
        """Settings for a target, with the PassContext of this thread."""
        context = PassContext.current()
        config = {
            str(name): value
            for name, value in context.config.items()
            if not str(name).startswith("relay.")
        }
        return cls(
            target=json.dumps(_exported(target), sort_keys=True),
            opt_level=int(context.opt_level),
            required=tuple(sorted(str(name) for name in context.required_pass)),
            disabled=tuple(sorted(str(name) for name in context.disabled_pass)),
            config=tuple(sorted((name, _text(value)) for name, value in config.items())),
            portable=not len(context.instruments)
            and LOWER_PASSES not in config
            and (target.kind.name != "cuda" or _cuda_is_untouched()),
        )

    def key(self, kernel: LoweredKernel) -> str:
        """Name of an archive in the cache: a digest of kernel, target, passes, TVM and LLVM."""
        parts = (
            ENTRY_VERSION,
            kernel.symbol,
            self.target,
            self.opt_level,
            self.required,
            self.disabled,
            self.config,
            compilers(),
            cuda_compiler() if json.loads(self.target)["kind"] == "cuda" else "",
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def generate(kernel: LoweredKernel, target: tvm.target.Target) -> bytes:
    """Archive of a kernel, compiled in this process with the PassContext of this thread."""
    return _generate(kernel.module(), target)


def generate_in_worker(module: str, settings: CodeGeneration) -> bytes:
    """Archive of a kernel, compiled in a worker with the settings of the asking process.

    ``module`` is TVM's JSON of :meth:`LoweredKernel.module`.
    """
    context = PassContext(
        opt_level=settings.opt_level,
        required_pass=list(settings.required),
        disabled_pass=list(settings.disabled),
        config={name: tvm.ir.load_json(text) for name, text in settings.config},
    )
    with context:
        target = _with_host(tvm.target.Target(json.loads(settings.target)))
        return _generate(tvm.ir.load_json(module), target)


def _generate(module: tvm.IRModule, target: tvm.target.Target) -> bytes:
    with _lowered_already(), mended_cuda_source():
        return pack_kernel(tvm.build(module, target=_with_host(target)))


def _lowered_already() -> AbstractContextManager[Any]:
    """Context for kernels whose buffers TVM has arranged when it lowered them."""
    if len(PassContext.current().instruments):
        return nullcontext()
    # tvm.build lowers them once more, and fails where a buffer of vectors would follow one of
    # numbers in its place.
    return nested_context({KEEP_BUFFERS: True})


def _with_host(target: tvm.target.Target) -> tvm.target.Target:
    """Target that names its host, for which TVM compiles the code around a kernel."""
    if target.host is not None:
        return target
    return tvm.target.Target(target, host=target if target.kind.name == "llvm" else "llvm")


def _exported(target: tvm.target.Target) -> Any:
    found = _with_host(target)
    return {str(name): _plain(value) for name, value in found.export().items()}


def _plain(value: Any) -> Any:
    """Value of TVM with its containers as Python's, for JSON."""
    if isinstance(value, tvm.ir.Map):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, tvm.ir.Array):
        return [_plain(entry) for entry in value]
    if isinstance(value, tvm.tir.IntImm):
        return int(value)
    return value if isinstance(value, int) else str(value)


def _text(value: Any) -> str:
    """Value of the configuration as text that another process reads."""
    return str(tvm.ir.save_json(tvm.runtime.convert(value)))


def _compile_callback() -> Any:
    """Address of the function that compiles CUDA source now."""
    found = tvm.get_global_func("tvm_callback_cuda_compile", allow_missing=True)
    return None if found is None else found.handle.value


CUDA_COMPILER = _compile_callback()
"""Address of the compiler at import: TVM's own, unless replaced before."""


def _cuda_is_untouched() -> bool:
    """True if CUDA source is compiled as in a process without registered hooks."""
    return users_hook() is None and _compile_callback() == CUDA_COMPILER


def cuda_compiler() -> str:
    """Path and version of the CUDA compiler; empty where there is none."""
    place = shutil.which("nvcc")
    return "" if place is None else f"{place} {_version_of(place)}"


@cache
def _version_of(_compiler: str) -> str:
    # The argument is the key of the cache alone: another compiler on PATH is asked anew.
    try:
        return str(nvcc.get_cuda_version())
    except (RuntimeError, OSError, ValueError, IndexError):
        return ""  # no compiler of NVIDIA's; its place has to do


@cache
def compilers() -> tuple[str, ...]:
    """Exact versions of TVM and LLVM."""
    flags = tvm.support.libinfo()
    return tvm.__version__, str(flags["GIT_COMMIT_HASH"]), str(flags["LLVM_VERSION"])
