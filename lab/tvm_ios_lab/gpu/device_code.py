"""Keeps compiled device code, by the digest of its source: no process compiles a thing twice.

Lowering a network takes TVM seconds, compiling its device code up to a minute. The files are found
again by other steps, other processes and later calls.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.errors import HostError
from tvm_ios.support.whole_file import write_bytes
from tvm_ios_lab.gpu.nvrtc import find_nvrtc

__all__ = ["compiler_text", "kept_device_code"]

_CALLBACK = "tvm_callback_cuda_compile"


@contextmanager
def kept_device_code(folder: Path) -> Iterator[None]:
    """Let TVM look in a folder before it runs nvcc, or NVRTC where there is no nvcc."""
    usual = tvm.get_global_func(_CALLBACK)
    version, compile_ = compiler_text(), _compiler(usual)

    def kept(code: str, target: Any) -> bytearray:
        key = "\0".join((version, str(target), str(tvm.target.Target.current()), code))
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.fatbin"
        if not path.exists():
            write_bytes(path, bytes(compile_(code, target)))
        return bytearray(path.read_bytes())

    register = tvm._ffi.register_func  # noqa: SLF001 - as TVM documents it
    register(_CALLBACK, kept, override=True)
    try:
        yield
    finally:
        register(_CALLBACK, usual, override=True)


def compiler_text() -> str:
    """Name and version of the compiler of device code on this machine."""
    if shutil.which("nvcc") is None:
        nvrtc = find_nvrtc()
        if nvrtc is None:
            raise HostError(
                "nvcc was not found, nor NVRTC; put the bin folder of a CUDA toolkit on PATH, such "
                "as /usr/local/cuda/bin, or pip install nvidia-cuda-nvrtc"
            )
        return nvrtc.version_text
    try:
        done = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HostError(f"nvcc cannot be run: {error}; mend it, or take it off PATH") from error
    return done.stdout


def _compiler(usual: Callable[..., Any]) -> Callable[..., Any]:
    nvrtc = None if shutil.which("nvcc") is not None else find_nvrtc()
    if nvrtc is None:
        return usual

    def compile_(code: str, target: Any) -> bytes:
        return nvrtc.compile(code, str(target.attrs["arch"]))

    return compile_
