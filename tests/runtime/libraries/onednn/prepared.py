"""Calls as C made them ready, read from its memory: ``OnednnCall`` of ``onednn_call.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import POINTER, Structure, c_char_p, c_int64, c_void_p

from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.onednn import device
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.cuts import Counts
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import load_onednn
from tvm_ios.runtime.libraries.protocol import LibraryLane

LANE = LibraryLane(
    take_workspace=TvmFunction.TAKE_WORKSPACE.address,
    give_workspace=TvmFunction.GIVE_WORKSPACE.address,
)


def cut_every_call(monkeypatch, cut: str) -> None:
    """Let every call have this cut; none is looked up or searched for."""
    monkeypatch.setattr(device, "find_facts", lambda *given: dict.fromkeys(given[2], f"{cut} 0"))


class MadePrimitive(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("primitive", "arguments", "places")),
        ("count", c_int64),
    ]


class MadePart(Structure):
    _fields_ = [
        ("made", POINTER(MadePrimitive)),
        *((name, c_int64) for name in ("count", "once", "workspace_bytes", "constant_bytes")),
        *((name, c_void_p) for name in ("constants", "stream")),
    ]

    @property
    def primitives(self) -> list[MadePrimitive]:
        return self.made[: self.count]

    @property
    def codes(self) -> list[str]:
        """oneDNN's name of the code of each primitive."""
        return [_code_of(each.primitive) for each in self.primitives]


class _MadeCall(Structure):
    _fields_ = [("parts", POINTER(MadePart)), ("num_parts", c_int64)]


def parts_of(resource: int) -> list[MadePart]:
    """The whole call, then its parts."""
    call = _MadeCall.from_address(resource)
    return call.parts[: call.num_parts]


@contextmanager
def prepared(call: OnednnCall, counts: Counts = (1, 1, 1)) -> Iterator[list[MadePart]]:
    """The whole call as it is prepared, then its parts."""
    with ExitStack() as undo:
        processor = OnednnProcessor(lanes=1)
        undo.callback(processor.close)
        yield parts_of(processor.prepare(call, counts, "here", LANE, undo).resource)


def _code_of(primitive: int) -> str:
    library = load_onednn().library
    descriptor, name = c_void_p(), c_char_p()
    library.dnnl_primitive_get_primitive_desc(c_void_p(primitive), ctypes.byref(descriptor))
    library.dnnl_primitive_desc_query(descriptor, 8, 0, ctypes.byref(name))
    return (name.value or b"").decode()
