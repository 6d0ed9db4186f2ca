"""Probe of TVM in a process of its own, so that a TVM that crashes or hangs does no harm."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from tvm_ios.errors import HostError
from tvm_ios.host.machine import llvm_version
from tvm_ios.host.relax_tvm import is_relax_tvm
from tvm_ios.host.relay_tvm import host_target, require_relay_tvm

__all__ = ["TvmReport", "describe_tvm"]

_PROGRAM = "from tvm_ios.host.tvm_probe import main; main()"
_TIMEOUT_S = 120
_GIVES = {
    "relay": "Relay: AutoTVM, Ansor and their logs, GPUs of NVIDIA, CPUs over RPC",
    "relax": "Relax: today's wheels, on CPUs and GPUs of this machine; no AutoTVM, no Ansor",
}
"""Abilities of a TVM with each dialect, for people."""
_LIBRARIES = ("USE_CUDNN", "USE_CUBLAS", "USE_GRAPH_EXECUTOR_CUDA_GRAPH")


@dataclass(frozen=True, slots=True, kw_only=True)
class TvmReport:
    """Facts of the TVM that ``import tvm`` gives; ``problem`` says why it is unfit.

    ``origin`` is "wheel" for the one that `tvm-ios install-tvm` installs and "yours" for any other.
    ``threads`` is the size of TVM's thread pool, ``host_target`` the target that a kernel was
    compiled and run with, ``libraries`` the optional CUDA libraries compiled in. ``uses_ctypes``
    says that Python calls TVM through ctypes, with which builds take a third longer.
    """

    origin: str | None = None
    version: str | None = None
    location: str | None = None
    dialects: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    llvm_version: str | None = None
    libraries: tuple[str, ...] = ()
    threads: int | None = None
    host_target: str | None = None
    gpu_visible: bool = False
    uses_ctypes: bool = False
    problem: str | None = None

    @property
    def gives(self) -> str | None:
        """Abilities of tvm-ios with the TVM that was found, for people; None without one."""
        if self.problem is not None:
            return None
        return _GIVES["relay" if "relay" in self.dialects else "relax"]


def describe_tvm(choice: str | None = None) -> TvmReport:
    """Report on TVM from a child process with the same module search path; never fails.

    ``choice`` is a value of ``TVM_IOS_TVM``, and the one of this process where omitted.
    """
    # The child has to find what this process would find, whatever its own first path entry.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    if choice is not None:
        environment["TVM_IOS_TVM"] = choice
    command = [sys.executable, "-P", "-W", "ignore", "-c", _PROGRAM]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return TvmReport(problem=f"importing TVM did not end within {_TIMEOUT_S} s")
    try:
        # What TVM prints while it is imported comes before the report.
        read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return TvmReport(problem=f"importing TVM ended the process ({done.returncode}): {last}")
    # JSON knows no tuples.
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in read.items()}
    return TvmReport(**cast("dict[str, Any]", fields))


def main() -> None:
    """Print the report of this process's TVM as one line of JSON."""
    print(json.dumps(asdict(_probe())))


def _probe() -> TvmReport:
    problem = None
    try:
        require_relay_tvm()
    except HostError as error:
        problem = str(error)
    # A TVM without Relay is refused above and still worth describing.
    tvm: Any = sys.modules.get("tvm")
    if tvm is None or not hasattr(tvm, "__version__"):
        return TvmReport(problem=problem)
    if is_relax_tvm(tvm):
        problem = None
    fields = _facts(tvm)
    if problem is None:
        try:
            fields["host_target"] = host_target()
        except HostError as error:
            problem = str(error)
    return TvmReport(**fields, problem=problem)


def _facts(tvm: Any) -> dict[str, Any]:
    flags = tvm.support.libinfo()
    place = str(Path(tvm.__file__).parent)
    return {
        "origin": "wheel" if "bitblas/3rdparty/tvm" in place else "yours",
        "version": tvm.__version__,
        "location": place,
        "dialects": tuple(name for name in ("relay", "relax") if _imports(f"tvm.{name}")),
        "targets": tuple(name for name in ("llvm", "cuda") if tvm.runtime.enabled(name)),
        "llvm_version": llvm_version(tvm),
        "libraries": tuple(name for name in _LIBRARIES if flags.get(name, "OFF") == "ON"),
        "threads": int(tvm.get_global_func("runtime.NumThreads")()),
        "gpu_visible": bool(tvm.cuda(0).exist),
        "uses_ctypes": "tvm._ffi._ctypes.object" in sys.modules,
    }


def _imports(name: str) -> bool:
    # Whatever goes wrong inside a dialect, it is not there for the user.
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001
        return False
    return True
