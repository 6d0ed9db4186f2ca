"""Places of oneDNN's library: named by the user, of the system or conda, or in the wheel."""

from __future__ import annotations

import ctypes
import os
import site
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ONEDNN_SONAME",
    "ONEDNN_VARIABLE",
    "FoundOnednn",
    "OnednnVersion",
    "find_onednn",
    "onednn_files",
    "onednn_libraries",
]

ONEDNN_VARIABLE = "TVM_IOS_ONEDNN"
"""Environment variable with the path of the only library to try."""
ONEDNN_SONAME = "libdnnl.so.3"
_OTHERS = ("libdnnl.so.2", "libdnnl.so.1")
"""Earlier interfaces, looked at last, so that they are refused by their version."""
_RUNTIMES = {0: "no", 1: "sequential", 2: "OpenMP", 4: "TBB", 8: "thread-pool", 512: "SYCL"}


class _Version(ctypes.Structure):
    """Layout of ``dnnl_version_t``, the version that libdnnl returns."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("major", "minor", "patch")),
        ("hash", ctypes.c_char_p),
        *((name, ctypes.c_uint) for name in ("cpu_runtime", "gpu_runtime")),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnVersion:
    """Version and kind of threads of a libdnnl, as it reports them."""

    major: int
    text: str
    """Version such as ``3.2.0``."""
    runtime: str
    """Maker of its threads: ``OpenMP``, ``sequential``, ``TBB``, …."""

    def as_text(self) -> str:
        """Name, version and threads, for people."""
        return f"oneDNN {self.text} ({self.runtime})"

    @property
    def unfit(self) -> str | None:
        """Reason why this libdnnl cannot be used; None where it can.

        A primitive has to run in the thread that executes it; OpenMP can be told so thread by
        thread.
        """
        if self.major != 3:
            return "its interface is another one; oneDNN 3 is needed"
        if self.runtime not in ("OpenMP", "sequential"):
            return f"it is a {self.runtime} build; one for OpenMP or a sequential one is needed"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOnednn:
    """The libdnnl to use; without a version where there is none."""

    path: str = ""
    library: ctypes.CDLL | None = None
    version: OnednnVersion | None = None
    reason: str = ""
    """Reason why there is none: of one that does not fit, else of one that cannot be loaded."""


def onednn_libraries() -> tuple[str, ...]:
    """Paths of libdnnl to try: only the user's if named; else system, conda and wheel."""
    named = os.environ.get(ONEDNN_VARIABLE)
    if named:
        return (named,)
    conda = os.environ.get("CONDA_PREFIX")
    folders = [*([Path(conda)] if conda else []), Path(sys.prefix)]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getuserbase()))
    files = dict.fromkeys(folder / "lib" / ONEDNN_SONAME for folder in folders)
    return (ONEDNN_SONAME, *(str(file) for file in files if file.exists()), *_OTHERS)


def onednn_files() -> tuple[Path, ...]:
    """Files, there or not, that decide which libdnnl is loaded and what it is."""
    tried = onednn_libraries()
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return (
        *(Path(name) for name in tried if os.sep in name),
        *(Path(folder, name) for folder in folders if folder for name in tried),
        Path("/etc/ld.so.cache"),  # changes with every library that the system gets
    )


def find_onednn() -> FoundOnednn:
    """First libdnnl that fits, loaded; otherwise the reason why there is none."""
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
