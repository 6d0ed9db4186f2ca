"""The compiled form of TVM's Python binding, whose source the wheel ships, and only that.

TVM has its binding twice: in ctypes, and in Cython, which it takes where it finds the module
``tvm._ffi._cy3.core``. Building a model makes millions of short calls, a quarter of whose time the
first one takes. The module lies in ``_tvm_ios_native`` of site-packages, where
``quick_import.py`` finds it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tvm_ios.errors import HostError
from tvm_ios.support.c_compiler import find_c_compiler
from tvm_ios.support.error_text import lines_that_tell

__all__ = ["compiled_ffi"]

_HEADERS = Path(__file__).with_name("native")
_CHANGES = {
    r'(?<=cdef extern from ")tvm/runtime/\w+\.h(?=")': "tvm_runtime_api.h",
    # Ctrl-C in Python code that TVM calls goes on to its caller, where TVM would drop it.
    r"(?<=except )Exception(?= as err:)": "BaseException",
}
"""Texts that replace parts of the source of TVM's binding, by regular expressions of the parts."""

_PLACE = re.compile(r"core\.\w+:\d+:\d+: ")
"""Beginning of a line in which Cython or the compiler says what is wrong, and where."""


def compiled_ffi(package: Path) -> bytes:
    """Content of the extension module of a TVM whose Python package lies in that folder.

    :class:`~tvm_ios.errors.HostError` where Cython, a C++ compiler or Python's headers are missing.
    """
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as name:
        folder = Path(name)
        for source in (package / "_ffi" / "_cython").glob("*.p[xy][xi]"):
            text = source.read_text("utf-8")
            for old, new in _CHANGES.items():
                text = re.sub(old, new, text)
            (folder / source.name).write_text(text, "utf-8")
        module, headers = "tvm._ffi._cy3.core", sysconfig.get_path("include")
        cython = (sys.executable, "-P", "-m", "cython", "-3", "--cplus", "--module-name", module)
        _run([*cython, "core.pyx", "-o", "core.cpp"], folder)
        compiler = (*find_c_compiler(), "-x", "c++", "-std=c++17", "-O2", "-fPIC", "-shared")
        places = (f"-I{_HEADERS}", f"-I{headers}", "-o", "core.so")
        _run([*compiler, "core.cpp", *places, "-lstdc++"], folder)
        return (folder / "core.so").read_bytes()


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise HostError(f"cannot run {command[0]}: {error}") from error
    if done.returncode != 0:
        lines = lines_that_tell(done.stderr, "it gave no reason")
        reason = next(filter(_PLACE.match, lines), lines[0])
        raise HostError(f"{' '.join(command[:4])} ... failed (exit {done.returncode}): {reason}")
