"""Puts compiled kernels into the library of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_ios.kernels.archive import unpack_kernel

__all__ = ["import_kernels"]


def import_kernels(library: Any, archives: Mapping[str, bytes]) -> None:
    """Import kernels into a module of TVM; exporting it links them in one call of the C compiler.

    Parameters
    ----------
    library
        The module of a model whose kernels were declared and not compiled.
    archives
        Compiled kernels by symbol.
    """
    for symbol, archive in archives.items():
        library.import_module(unpack_kernel(archive, symbol))
