"""Where oneDNN's library lies: named by the user, of the system or conda, or in the wheel."""

from __future__ import annotations

import ctypes
import os
import site
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ONEDNN_PACKAGE",
    "ONEDNN_SONAME",
    "ONEDNN_VARIABLE",
    "FoundOnednn",
    "OnednnVersion",
    "find_onednn",
    "onednn_libraries",
]

ONEDNN_PACKAGE = "onednn-cpu-gomp==2023.2.0"
"""The wheel that the extra ``onednn`` installs, of just this version."""
ONEDNN_VARIABLE = "TVM_IOS_ONEDNN"
"""Environment variable with the path of the library to take, and no other."""
ONEDNN_SONAME = "libdnnl.so.3"
_OTHERS = ("libdnnl.so.2", "libdnnl.so.1")
"""Earlier interfaces: looked at last, so that what is there is refused by its version."""
_RUNTIMES = {0: "no", 1: "sequential", 2: "OpenMP", 4: "TBB", 8: "thread-pool", 512: "SYCL"}


class _Version(ctypes.Structure):
    """``dnnl_version_t``."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("major", "minor", "patch")),
        ("hash", ctypes.c_char_p),
        *((name, ctypes.c_uint) for name in ("cpu_runtime", "gpu_runtime")),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnVersion:
    """What a libdnnl says of itself."""

    major: int
    text: str
    """Such as ``3.2.0``."""
    runtime: str
    """What its threads are made by: ``OpenMP``, ``sequential``, ``TBB``, …"""

    def as_text(self) -> str:
        """Name, version and threads, for people."""
        return f"oneDNN {self.text} ({self.runtime})"

    @property
    def unfit(self) -> str | None:
        """Why it cannot be used; None where it can.

        Its threads must be ours: a primitive has to run in the thread that executes it, which
        OpenMP can be told thread by thread.
        """
        if self.major != 3:
            return "its interface is another one; oneDNN 3 is needed"
        if self.runtime not in ("OpenMP", "sequential"):
            return f"it is a {self.runtime} build; one for OpenMP or a sequential one is needed"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOnednn:
    """The libdnnl that is taken; without a version where none is."""

    path: str = ""
    library: ctypes.CDLL | None = None
    version: OnednnVersion | None = None
    reason: str = ""
    """Why there is none: that of one that does not fit, else of one that cannot be loaded."""


def onednn_libraries() -> tuple[str, ...]:
    """What libdnnl may be loaded by: the user's alone, else the system's, conda's, the wheel's."""
    named = os.environ.get(ONEDNN_VARIABLE)
    if named:
        return (named,)
    conda = os.environ.get("CONDA_PREFIX")
    folders = [*([Path(conda)] if conda else []), Path(sys.prefix)]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getuserbase()))
    files = dict.fromkeys(folder / "lib" / ONEDNN_SONAME for folder in folders)
    return (ONEDNN_SONAME, *(str(file) for file in files if file.exists()), *_OTHERS)


def find_onednn() -> FoundOnednn:
    """The first libdnnl that fits, loaded; where there is none, why."""
    reasons: list[str] = []
    unfit: list[str] = []
    for path in onednn_libraries():
        try:
            library = ctypes.CDLL(path)
            version = _read_version(library)
        except OSError as error:
            reasons.append(str(error))
            continue
        except AttributeError:
            reasons.append(f"{path} is no oneDNN")
            continue
        if version.unfit is None:
            return FoundOnednn(path=path, library=library, version=version)
        unfit.append(f"{path} is {version.as_text()}, but {version.unfit}")
    return FoundOnednn(reason=(*unfit, *reasons)[0])


def _read_version(library: ctypes.CDLL) -> OnednnVersion:
    function = library["dnnl_version"]
    function.restype = ctypes.POINTER(_Version)
    found = function().contents
    runtime = int(found.cpu_runtime)
    return OnednnVersion(
        major=int(found.major),
        text=f"{found.major}.{found.minor}.{found.patch}",
        runtime=_RUNTIMES.get(runtime, f"runtime {runtime}"),
    )
