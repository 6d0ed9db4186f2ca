"""A kernel before code generation: its lowered functions, and a name derived from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import tvm

__all__ = ["LoweredKernel"]

LABELS = ("hash", "global_symbol")
"""Attributes of a lowered function that say where it came from, not what it does."""


@dataclass(frozen=True)
class LoweredKernel:
    """A scheduled kernel of a network as TIR, ready for TVM's code generators."""

    stem: str
    """TVM's name of the fused function's computation; first part of the symbol."""
    function: tvm.tir.PrimFunc
    source_digest: str
    """Digest of the dialect's function it was lowered from, 16 hexadecimal digits. With the code's
    own hash beside it, kernels share a name only if two digests of 64 bits agree at once."""

    @cached_property
    def code(self) -> str:
        """Digest of the code, 16 hexadecimal digits; equal in every process and network."""
        plain = self.function
        for label in LABELS:
            if plain.attrs is not None and label in plain.attrs:
                plain = plain.without_attr(label)
        # TVM's hash comes as a signed number.
        value = int(tvm.ir.structural_hash(plain)) & (2**64 - 1)
        return hashlib.sha256(f"{self.source_digest} {value:016x}".encode()).hexdigest()[:16]

    @property
    def symbol(self) -> str:
        """Name of the kernel in a library; kernels of different code never share it."""
        return f"{self.stem}_{self.code}"

    def module(self) -> tvm.IRModule:
        """Module with only this function, under its symbol."""
        named = self.function.with_attr("global_symbol", self.symbol)
        return tvm.IRModule({self.symbol: named})
