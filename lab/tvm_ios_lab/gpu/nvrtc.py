"""Compiles device code where there is no nvcc: by the compiler library that PyTorch depends on."""

from __future__ import annotations

import ctypes
import re
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.host.cudnn_files import cudnn_dependencies

__all__ = ["Nvrtc", "find_nvrtc"]

_PROGRAM_OUT = POINTER(c_void_p)
_FUNCTIONS = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcCreateProgram": (_PROGRAM_OUT, c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "nvrtcDestroyProgram": (_PROGRAM_OUT,),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcGetCUBINSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetCUBIN": (c_void_p, c_char_p),
    "nvrtcGetProgramLogSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetProgramLog": (c_void_p, c_char_p),
}


class Nvrtc:
    """NVRTC, for sources that include nothing, as TVM's of float32 kernels do.

    Parameters
    ----------
    path
        Path of libnvrtc.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        library = ctypes.CDLL(path)
        self._functions = {}
        for name, arguments in _FUNCTIONS.items():
            function = library[name]
            function.restype, function.argtypes = c_int, list(arguments)
            self._functions[name] = function

    @property
    def version_text(self) -> str:
        """Version and path."""
        major, minor = c_int(), c_int()
        self._call("nvrtcVersion", byref(major), byref(minor))
        return f"NVRTC {major.value}.{minor.value} at {self.path}"

    def compile(self, source: str, arch: str) -> bytes:
        """Machine code of a source.

        Parameters
        ----------
        source
            Source in CUDA C++.
        arch
            Such as ``sm_90``.
        """
        program = c_void_p()
        self._call(
            "nvrtcCreateProgram", byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
        try:
            options = (c_char_p * 1)(f"--gpu-architecture={arch}".encode())
            if self._functions["nvrtcCompileProgram"](program, len(options), options):
                log = self._text("nvrtcGetProgramLog", program).rstrip(b"\0").decode()
                raise HostError(f"{self.path} does not compile device code for {arch}: {log}")
            return self._text("nvrtcGetCUBIN", program)
        finally:
            self._call("nvrtcDestroyProgram", byref(program))

    def _text(self, name: str, program: c_void_p) -> bytes:
        size = c_size_t()
        self._call(f"{name}Size", program, byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(name, program, buffer)
        return buffer.raw

    def _call(self, name: str, *arguments: object) -> None:
        code = self._functions[name](*arguments)
        if code:
            raise HostError(f"{name} of {self.path} failed: error {code}")


def find_nvrtc() -> Nvrtc | None:
    """The newest that an installed wheel has; None where there is none."""
    paths = [path for path in cudnn_dependencies() if Path(path).name.startswith("libnvrtc.so")]
    for path in sorted(paths, key=_major, reverse=True):
        try:
            return Nvrtc(path)
        except (OSError, AttributeError):
            continue
    return None


def _major(path: str) -> int:
    found = re.search(r"\.so\.(\d+)", path)
    return int(found[1]) if found else 0
