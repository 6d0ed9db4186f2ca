"""The native side of oneDNN's calls (``native/onednn_calls.c``), bound through ctypes. No TVM."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_void_p
from pathlib import Path

from tvm_ios.errors import ExecutionError, HostError
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.call_data import call_data
from tvm_ios.runtime.libraries.onednn.cuts import Counts
from tvm_ios.runtime.libraries.onednn.library import Onednn, OnednnRefusalError
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.support.c_compiler import NativeSource

__all__ = ["CALLS_SOURCE", "RUN_CALL", "NativeOnednn", "OnednnPreparedCall"]

CALLS_SOURCE = NativeSource(Path(__file__).parent / "native" / "onednn_calls.c")
RUN_CALL = "tvm_ios_onednn_run_3"
"""Name of the C function that makes a call; the number is that of all that Python calls there."""
_REFUSED = 1
_TEXT_BYTES = 512


class NativeOnednn:
    """Functions and an engine of oneDNN, as C has them to make calls ready.

    ``code`` is a loaded file that may bring the C code along; else it is compiled.

    Raises
    ------
    HostError
        If this oneDNN does not fit, or there is no C compiler.
    """

    def __init__(self, library: Onednn, code: ctypes.CDLL | None = None) -> None:
        brings = code is not None and hasattr(code, RUN_CALL)
        self.code = code if code is not None and brings else CALLS_SOURCE.library
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self.code.tvm_ios_onednn_open.restype = c_void_p
        handle = c_void_p(library.library._handle)  # noqa: SLF001
        self._opened = c_void_p(self.code.tvm_ios_onednn_open(handle, text, c_size_t(_TEXT_BYTES)))
        if not self._opened:
            raise HostError(library.unfit(text.value.decode(errors="replace")))

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

    def close(self) -> None:
        """Destroy the engine, once all calls are closed; may be called twice."""
        self.code.tvm_ios_onednn_close(self._opened)
        self._opened = c_void_p()


class OnednnPreparedCall:
    """A call ready to be made from C, whole and in parts, until it is closed."""

    def __init__(self, code: ctypes.CDLL, made: c_void_p) -> None:
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


def _message(where: str, said: bytes) -> str:
    told = said.decode(errors="replace")
    return f"{where}: {told}; compile without onednn=True, or give another libdnnl"
