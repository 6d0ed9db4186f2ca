"""Texts that TVM writes at every type inference and nobody reads.

Whenever the type of a convolution is inferred, ``tir::BijectiveLayout`` prints the rules of its
layouts into a string for a log line that is switched off (``GetStoreRule`` in TVM's
``data_layout.cc``). Each term goes through the TVMScript printer, and Relay infers types after
nearly every pass: more than a third of preparing a network.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tvm._ffi.base import _LIB

__all__ = ["without_layout_text"]

_TERMS = ("tir.Var", "tir.Add", "tir.Sub", "tir.Mul", "tir.FloorDiv", "tir.FloorMod")
"""Node types of the terms in layout rules. Numbers, which shapes consist of, are still printed."""
_TABLE = "_ZN3tvm11ReprPrinter6vtableEv"
_PRINTER = (
    "_ZN3tvm6script7printer27RedirectedReprPrinterMethodERKNS_7runtime9ObjectRefEPNS_11ReprPrinterE"
)


@contextmanager
def without_layout_text() -> Iterator[None]:
    """Context in which TVM prints index expressions as nothing, and infers types faster.

    For passes on graphs only: Ansor makes the keys of its workloads of such text. Without effect
    where TVM keeps its printers in another way than 0.17.
    """
    printer, entries = _entries()
    # An entry that holds another function is somebody else's, or this is nested in itself.
    changed = [entry for entry in entries if entry.value == printer]
    # The printer's arguments are two pointers; this function looks at the first and does nothing.
    silent = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    for entry in changed:
        entry.value = silent
    try:
        yield
    finally:
        for entry in changed:
            entry.value = printer


@cache
def _entries() -> tuple[int | None, tuple[ctypes.c_void_p, ...]]:
    """Address of the TVMScript printer, and its entries for terms in TVM's table of printers.

    The table is a ``NodeFunctor``: a ``std::vector`` of functions by the index of a node's type.
    """
    try:
        printer = ctypes.cast(getattr(_LIB, _PRINTER), ctypes.c_void_p).value
        find_table = getattr(_LIB, _TABLE)
    except AttributeError:
        return None, ()
    find_table.restype = ctypes.POINTER(ctypes.c_void_p * 2)
    begin, end = find_table().contents
    indices = []
    for term in _TERMS:
        index = ctypes.c_uint()
        _LIB.TVMObjectTypeKey2Index(term.encode(), ctypes.byref(index))
        indices.append(index.value)
    size = ctypes.sizeof(ctypes.c_void_p)
    addresses = [begin + size * index for index in indices]
    inside = [address for address in addresses if begin <= address <= end - size]
    return printer, tuple(ctypes.c_void_p.from_address(address) for address in inside)
