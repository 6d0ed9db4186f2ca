"""The TVM with Relay in this process, found or refused, and the target that suits the host.

Written against the documented API of TVM 0.11 to 0.19; 0.20 dropped Relay.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from tvm_ios.errors import HostError
from tvm_ios.host.processor import target_candidates
from tvm_ios.host.relax_tvm import is_relax_tvm

__all__ = ["cached_libinfo", "host_target", "require_relay_for", "require_relay_tvm", "require_tvm"]

_OLDEST = (0, 11)
_INSTALL = "run `tvm-ios install-tvm`, or put TVM 0.11 to 0.19 on PYTHONPATH; see `tvm-ios doctor`"
_HOME = "set HOME to a folder you can write, since TVM makes .tvm_test_data there; or "
# te_compiler has imported the function by name, so it is exchanged in both modules.
_LIBINFO_USERS = ("tvm.support", "tvm.relay.backend.te_compiler")


@cache
def require_tvm() -> ModuleType:
    """Import TVM, with Relay or with Relax, and return it.

    Raises
    ------
    HostError
        If there is none or it does not load. The message names the command to run.
    """
    tvm = _imported()
    if not hasattr(tvm, "runtime"):
        raise HostError(f"{_named(tvm)} has no runtime; {_INSTALL}")
    return tvm


def _named(tvm: ModuleType) -> str:
    """Version and place of a TVM, for messages."""
    return f"TVM {getattr(tvm, '__version__', 'unknown')} at {getattr(tvm, '__file__', None)}"


def _imported() -> ModuleType:
    try:
        return importlib.import_module("tvm")
    except ModuleNotFoundError as error:
        if error.name == "tvm":
            raise HostError(f"no TVM found; {_INSTALL}") from error
        raise HostError(
            f"TVM needs the module {error.name}, which is not installed; {_INSTALL}"
        ) from error
    # An unfit shared library raises OSError or RuntimeError, an unfit binding AttributeError.
    except Exception as error:
        folder = os.path.expanduser("~")  # noqa: PTH111 - stays "~" where there is no home
        home = "" if os.access(folder, os.W_OK) else _HOME
        raise HostError(
            f"TVM does not load: {type(error).__name__}: {error}; {home}{_INSTALL}"
        ) from error


@cache
def require_relay_tvm() -> ModuleType:
    """Import TVM and return it.

    ``TOPHUB_LOCATION`` becomes ``NONE`` unless set: otherwise TVM tries at every build to download
    schedules that were tuned for other machines.

    Raises
    ------
    HostError
        If there is no TVM, it does not load, or it has no Relay. The message names what was found
        and the command to run.
    """
    tvm = _imported()
    version = getattr(tvm, "__version__", "unknown")
    try:
        importlib.import_module("tvm.relay")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("tvm"):
            raise HostError(
                f"the Relay of TVM {version} needs the module {error.name}, "
                f"which is not installed; {_INSTALL}"
            ) from error
        raise HostError(f"{_named(tvm)} has no Relay; {_INSTALL}") from error
    if _release(version) < _OLDEST:
        raise HostError(f"{_named(tvm)} is older than 0.11; {_INSTALL}")
    os.environ.setdefault("TOPHUB_LOCATION", "NONE")
    return tvm


def require_relay_for(name: str) -> None:
    """Refuse a name of ours that needs Relay, where the TVM here has none; raises HostError."""
    try:
        require_relay_tvm()
    except HostError as error:
        raise HostError(f"{name} needs a TVM with Relay: {error}") from error


@cache
def host_target() -> str:
    """Best ``llvm`` target for this processor that this TVM's LLVM knows, tried with a kernel.

    With TVM 0.27 it is JSON, since that reads no other targets.

    Raises
    ------
    HostError
        If this TVM has no LLVM or no target compiles a kernel that adds up right.
    """
    tvm = _imported()
    relax = is_relax_tvm(tvm)
    if not relax and not require_relay_tvm().runtime.enabled("llvm"):
        raise HostError(f"TVM {tvm.__version__} was built without LLVM; {_INSTALL}")
    failures = []
    for words in target_candidates(int(tvm.target.codegen.llvm_version_major())):
        target = words
        if relax:
            options = dict(word.lstrip("-").split("=", 1) for word in words.split()[1:])
            target = str(tvm.target.Target({"kind": "llvm", **options}))
        try:
            _try_kernel(tvm, target, relax=relax)
        # TVM's own errors are of these.
        except (HostError, RuntimeError, ValueError) as error:
            failures.append(f"{words}: {error}")
        else:
            return target
    advice = "" if relax else f"; {_INSTALL}"
    raise HostError(f"no target compiles a kernel here: {'; '.join(failures)}{advice}")


@contextmanager
def cached_libinfo() -> Iterator[None]:
    """Context in which TVM's build flags are read once; a Relay build gets 13 to 16 % faster.

    TVM's lowering calls ``tvm.support.libinfo()`` for every dimension of every tensor, and each
    answer is a new dictionary of about 100 flags.
    """
    tvm = require_relay_tvm()
    original = tvm.support.libinfo
    if getattr(original, "tvm_ios_cached", False):  # nested, or another thread is inside
        yield
        return
    flags = _build_flags()

    def libinfo() -> dict[str, str]:
        return flags

    libinfo.tvm_ios_cached = True  # type: ignore[attr-defined]
    users = [sys.modules[name] for name in _LIBINFO_USERS if name in sys.modules]
    users = [user for user in users if getattr(user, "libinfo", None) is original]
    for user in users:
        user.libinfo = libinfo  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for user in users:
            user.libinfo = original  # type: ignore[attr-defined]


@cache
def _build_flags() -> dict[str, str]:
    """Build flags of this TVM, read once in a process: it takes milliseconds."""
    return dict(require_relay_tvm().support.libinfo())


def _release(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: (0, 17) of "0.17.dev0"."""
    numbers = []
    for field in version.split("."):
        if not field.isdigit():
            break
        numbers.append(int(field))
    return tuple(numbers)


def _try_kernel(tvm: Any, target: str, *, relax: bool) -> None:
    numpy = importlib.import_module("numpy")
    te = importlib.import_module("tvm.te")
    left = te.placeholder((64,), name="left")
    right = te.compute((64,), lambda i: left[i] * 2.0 + 1.0, name="right")
    function = te.create_prim_func([left, right]).with_attr("global_symbol", "double_and_one")
    build, array = (tvm.compile, tvm.runtime.tensor) if relax else (tvm.build, tvm.nd.array)
    built = build(function, target=target)
    kernel = built["double_and_one"] if relax else built
    data = numpy.arange(64, dtype="float32")
    given, got = array(data), array(numpy.zeros_like(data))
    kernel(given, got)
    if not numpy.array_equal(got.numpy(), data * 2 + 1):
        raise HostError("its kernel computed a wrong result")
