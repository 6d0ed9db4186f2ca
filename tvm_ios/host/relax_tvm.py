"""The TVM with Relax that is known here, and the target that suits the host."""

from __future__ import annotations

import importlib
from types import ModuleType

from tvm_ios.errors import HostError
from tvm_ios.host.processor import target_candidates

__all__ = ["RELAX_RELEASE", "is_relax_tvm", "is_relax_version", "relax_host_target"]

RELAX_RELEASE = "0.27"
"""Release of TVM whose names and calling convention are known."""


def is_relax_tvm(tvm: ModuleType) -> bool:
    """True if a TVM is of the release with Relax that is known here."""
    return is_relax_version(str(getattr(tvm, "__version__", "")))


def is_relax_version(version: str) -> bool:
    """True if a version of TVM is of that release."""
    return version.startswith(f"{RELAX_RELEASE}.")


def relax_host_target(tvm: ModuleType) -> str:
    """Best ``llvm`` target for this processor that TVM's LLVM knows, tried with a kernel; as JSON.

    Raises
    ------
    HostError
        If no target compiles a kernel that adds up right.
    """
    failures = []
    for words in target_candidates(int(tvm.target.codegen.llvm_version_major())):
        options = (word.lstrip("-").split("=", 1) for word in words.split()[1:])
        target = tvm.target.Target({"kind": "llvm", **dict(options)})
        try:
            _try_kernel(tvm, target)
        except (HostError, RuntimeError, ValueError) as error:
            failures.append(f"{words}: {error}")
        else:
            return str(target)
    raise HostError(f"no target compiles a kernel here: {'; '.join(failures)}")


def _try_kernel(tvm: ModuleType, target: object) -> None:
    numpy = importlib.import_module("numpy")
    te = importlib.import_module("tvm.te")
    left = te.placeholder((64,), name="left")
    right = te.compute((64,), lambda i: left[i] * 2.0 + 1.0, name="right")
    function = te.create_prim_func([left, right]).with_attr("global_symbol", "double_and_one")
    kernel = tvm.compile(function, target=target)["double_and_one"]
    data = numpy.arange(64, dtype="float32")
    given, got = tvm.runtime.tensor(data), tvm.runtime.tensor(numpy.zeros_like(data))
    kernel(given, got)
    if not numpy.array_equal(got.numpy(), data * 2 + 1):
        raise HostError("its kernel computed a wrong result")
