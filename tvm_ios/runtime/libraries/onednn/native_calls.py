"""The native side of oneDNN's calls (``native/onednn_calls.c``), bound through ctypes. No TVM."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p
from pathlib import Path
from typing import Any

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.call_data import call_data
from tvm_ios.runtime.libraries.onednn.cuts import Counts
from tvm_ios.runtime.libraries.onednn.library import Onednn, OnednnFacts, OnednnRefusalError
from tvm_ios.runtime.libraries.processor import Processor
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.support.c_compiler import NativeSource
from tvm_ios.support.extras import install_command

__all__ = ["CALLS_SOURCE", "RUN_CALL", "NativeOnednn", "OnednnPreparedCall"]

CALLS_SOURCE = NativeSource(Path(__file__).parent / "native" / "onednn_calls.c")
RUN_CALL = "tvm_ios_onednn_run_3"
"""Name of the C function that makes a call; the number is that of all that Python calls there."""
_REFUSED = 1
_TEXT_BYTES = 512


class NativeOnednn:
    """Functions and an engine of oneDNN, as C has them to make calls ready.

    Without ``library``, the processor's own is looked for there.

    Raises
    ------
    HostError
        If this oneDNN does not fit, there is none, or no C compiler.
    """

    def __init__(self, processor: Processor, library: Onednn | None) -> None:
        self.code = processor.code(CALLS_SOURCE, RUN_CALL)
        for name in ("close", "drop", "forget_constants"):
            getattr(self.code, f"tvm_ios_onednn_{name}").restype = None
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        room = (text, c_size_t(_TEXT_BYTES))
        if library is None:
            self.code.tvm_ios_onednn_find.restype = c_void_p
            self._opened = c_void_p(self.code.tvm_ios_onednn_find(*room))
        else:
            self.code.tvm_ios_onednn_open.restype = c_void_p
            handle = c_void_p(library.library._handle)  # noqa: SLF001
            self._opened = c_void_p(self.code.tvm_ios_onednn_open(handle, *room))
        if not self._opened:
            said = text.value.decode(errors="replace")
            raise HostError(_missing(processor, said) if library is None else library.unfit(said))
        self.facts = self._tell(*room) if library is None else library.facts
        """Version and instruction sets."""

    def prepare(
        self, call: OnednnCall, counts: Counts, where: str, lane: LibraryLane
    ) -> OnednnPreparedCall:
        """A call as a whole and in parts, to be closed; ``where`` is the operator or purpose."""
        data, made = call_data(call, counts), c_void_p()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        # CallHost of library_calls.h
        host = (c_void_p * 3)(lane.take_workspace, lane.give_workspace, lane.split_region or None)
        given = (self._opened, host, data, c_size_t(len(data)), ctypes.byref(made))
        code = self.code.tvm_ios_onednn_prepare(*given, text, c_size_t(_TEXT_BYTES))
        if code:
            kind = OnednnRefusalError if code == _REFUSED else ExecutionError
            raise kind(_message(where, text.value))
        return OnednnPreparedCall(self.code, made)

    def _tell(self, text: ctypes.Array[ctypes.c_char], size: c_size_t) -> OnednnFacts:
        self.code.tvm_ios_onednn_tell(self._opened, text, size)
        version, _, isa = text.value.decode(errors="replace").partition(" ")
        return OnednnFacts(version, isa.removeprefix("cpu_isa_"))

    def close(self) -> None:
        """Destroy the engine, once all calls are closed; may be called twice."""
        self.code.tvm_ios_onednn_close(self._opened)
        self._opened = c_void_p()


class OnednnPreparedCall:
    """A call ready to be made from C, whole and in parts, until it is closed."""

    def __init__(self, code: Any, made: c_void_p) -> None:
        self.function = address_of(code, RUN_CALL)
        self._code = code
        self._made = made

    @property
    def resource(self) -> int:
        """Address of the native call."""
        return self._made.value or 0

    def constants_changed(self) -> None:
        """Have the next run reorder constants again."""
        self._code.tvm_ios_onednn_forget_constants(self._made)

    def failure(self, where: str) -> ExecutionError | None:
        """Error of the call of oneDNN that failed, once; None if no call of oneDNN failed."""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._code.tvm_ios_explain_call(self._made, text, c_size_t(_TEXT_BYTES))
        return ExecutionError(_message(where, text.value)) if text.value else None

    def close(self) -> None:
        """Destroy all that was made for the call; it must not be used any more."""
        self._code.tvm_ios_onednn_drop(self._made)


def _missing(processor: Processor, said: str) -> str:
    return (
        f"oneDNN 3 is to compute{processor.place}, and {said}; install it there "
        f"({install_command('onednn')}), name its file to the server that you start, or leave out "
        "it (libraries=(), or --libraries none)"
    )


def _message(where: str, said: bytes) -> str:
    told = said.decode(errors="replace")
    return f"{where}: {told}; compile with libraries=(), or give another libdnnl"
