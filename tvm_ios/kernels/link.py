"""Linking of compiled kernels into the library of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_ios.kernels.archive import unpack_kernel

__all__ = ["import_kernels"]


def import_kernels(library: Any, archives: Mapping[str, bytes]) -> None:
    """Import kernels, by symbol, into a model's module that declares but does not define them.

    Exporting that module links all of them in one call of the C compiler.
    """
    for symbol, archive in archives.items():
        library.import_module(unpack_kernel(archive, symbol))
