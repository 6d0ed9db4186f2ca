"""The libdnnl of this process: version, instruction sets, and errors that name it. No TVM here."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.host.onednn_files import ONEDNN_VARIABLE, OnednnVersion, find_onednn
from tvm_ios.support.extras import install_command

__all__ = ["Onednn", "OnednnFacts", "OnednnRefusalError", "load_onednn"]

_CHOICE = 10
"""Version of the rules of ``onednn_prepare.h`` that choose among oneDNN's codes for a call; counted
up with each change, since older measurements are of other code."""


class OnednnRefusalError(ExecutionError):
    """A request that oneDNN has no implementation for."""


@dataclass(frozen=True, slots=True)
class OnednnFacts:
    """Version and instruction sets of a libdnnl, here or on another machine."""

    version: str
    """Version such as ``3.2.0``."""
    isa: str
    """Instruction sets in use, by oneDNN's name, such as ``avx512_core``."""

    @property
    def identity(self) -> str:
        """Version, instruction sets and rules of choice, which decide the time of a call."""
        return f"{self.version}-{self.isa}-{_CHOICE}"

    @property
    def has_bfloat16(self) -> bool:
        """True if the processor multiplies in bfloat16; elsewhere oneDNN emulates it slowly.

        Instruction sets named after float16 and AMX hold those named after bfloat16.
        """
        return any(name in self.isa for name in ("bf16", "fp16", "amx"))

    def as_text(self) -> str:
        """Name and version of oneDNN, and the instruction sets it uses."""
        return f"oneDNN {self.version} ({self.isa})"


class Onednn:
    """A loaded libdnnl; the path is for messages."""

    def __init__(self, library: ctypes.CDLL, path: str, version: OnednnVersion) -> None:
        self.library = library
        self.path = path
        self.version = version

    @property
    def facts(self) -> OnednnFacts:
        """Version and instruction sets."""
        text = self.library["dnnl_cpu_isa2str"]
        text.restype = ctypes.c_char_p
        name: bytes = text(self.library["dnnl_get_effective_cpu_isa"]()) or b"unknown"
        isa = name.decode(errors="replace").removeprefix("cpu_isa_")
        return OnednnFacts(self.version.text, isa)

    def unfit(self, reason: str) -> str:
        """Message on a library that does not fit, and what to do."""
        return (
            f"{self.path} is {self.version.as_text()}, but {reason}; "
            f"{install_command('onednn')}, or name another libdnnl in {ONEDNN_VARIABLE}"
        )


@cache
def load_onednn() -> Onednn:
    """The oneDNN of this process."""
    found = find_onednn()
    if found.library is None or found.version is None:
        raise HostError(
            f"no oneDNN 3: {found.reason}; run {install_command('onednn')}, name a libdnnl in "
            f"{ONEDNN_VARIABLE}, or leave it out (libraries=(), or --libraries none)"
        )
    return Onednn(found.library, found.path, found.version)
