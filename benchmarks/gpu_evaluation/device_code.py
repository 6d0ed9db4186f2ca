"""Keeps what nvcc made, by the digest of its source: no process compiles a thing twice.

Lowering a network takes TVM seconds, compiling its device code up to a minute. The files are found
again by other steps, other processes and later calls.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm

from benchmarks.gpu_evaluation.ledger import write_whole
from tvm_ios.errors import HostError

__all__ = ["kept_device_code"]

_CALLBACK = "tvm_callback_cuda_compile"


@contextmanager
def kept_device_code(folder: Path) -> Iterator[None]:
    """Let TVM look in a folder before it runs nvcc.

    Raises
    ------
    HostError
        If nvcc is missing.
    """
    compile_ = tvm.get_global_func(_CALLBACK)
    version = _nvcc_version()

    def kept(code: str, target: Any) -> bytearray:
        key = "\0".join((version, str(target), str(tvm.target.Target.current()), code))
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.fatbin"
        if not path.exists():
            write_whole(path, bytes(compile_(code, target)))
        return bytearray(path.read_bytes())

    register = tvm._ffi.register_func  # noqa: SLF001 - as TVM documents it
    register(_CALLBACK, kept, override=True)
    try:
        yield
    finally:
        register(_CALLBACK, compile_, override=True)


def _nvcc_version() -> str:
    try:
        done = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(
            f"nvcc cannot be run: {error}; put the bin folder of a CUDA toolkit on PATH, such as "
            "/usr/local/cuda/bin"
        ) from error
    return done.stdout
