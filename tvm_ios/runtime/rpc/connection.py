"""A connection to a device of an RPC tracker, with the lane executor loaded there.

The device runs only a stock ``python -m tvm.exec.rpc_server``. Our part is one compiled C file,
uploaded first (``native/remote_lanes.c``). It takes the times, so a network makes measuring slower
but is never part of a price.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import tvm

from tvm_ios.errors import CostError, HostError, LostSessionError
from tvm_ios.runtime.base.native_runtime import REMOTE_LANES
from tvm_ios.runtime.rpc.address import DeviceAddress, connect_device, last_line
from tvm_ios.support.c_compiler import compile_shared

__all__ = ["RemoteConnection", "pack_rows"]

CALL_LIMIT_S = 60
"""Seconds of processor time of one call, after which the session on the device ends."""
ANSWER_LIMIT_S = 70
"""Seconds without an answer, after which the device is given up."""
IDLE_LIMIT_S = 1800
"""Seconds without a call, after which the device is free again: its host is gone."""
TEXT_BYTES = 8192
WRITE_BYTES = 1 << 22
"""Bytes of a piece in which memory is written; none takes long on a slow network."""


class RemoteConnection:
    """A device of an RPC tracker, held until it is closed; a context manager.

    Every method raises CostError if what it asks for fails, or the device is lost.
    """

    def __init__(self, address: DeviceAddress) -> None:
        self.address = address
        lanes = compile_shared(REMOTE_LANES.path, compiler=address.cross_compiler)
        self._broken: str | None = None
        self._unused: list[tuple[int, int]] = []
        self._functions: dict[str, Any] = {}
        self._modules: list[Any] = []
        self._session, self._socket = connect_device(address)
        try:
            self._start(lanes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Place of what runs there, in messages."""
        return f" on {self.address.as_text()}"

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of ``native/remote_lanes.c``, named without its prefix."""
        with self._explained():
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = self._modules[0][f"tvm_ios_remote_{name}"]
            return function(*arguments)

    def load(self, path: Path) -> str:
        """Path on the device of a library that is uploaded and loaded."""
        name = f"library-{len(self._modules)}.so"
        with self._explained():
            # TVM takes bytes for the name of a file, and only a bytearray for content.
            self._session.upload(bytearray(path.read_bytes()), name)
            self._modules.append(self._session.load_module(name))
            return str(self._session.get_function("tvm.rpc.server.workpath")(name))

    def allocate(self, size_bytes: int) -> int:
        """Address of zeroed memory on the device."""
        return int(self.call("allocate", size_bytes))

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to an address."""
        for begin in range(0, len(data), WRITE_BYTES):
            self.call("write", address + begin, bytearray(data[begin : begin + WRITE_BYTES]))

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy bytes from an address."""
        return self._receive(size_bytes, "read", address)

    def text(self, name: str, *arguments: Any) -> str:
        """Text that a function of the device gives."""
        text, _, _ = self._receive(TEXT_BYTES, name, *arguments).partition(b"\0")
        return text.decode(errors="replace")

    def find(self, path: str, name: str) -> int:
        """Address of a function of a loaded library, or of the process; 0 where there is none."""
        return int(self.call("find", path, name))

    def invoke(
        self, function: int, arguments: Iterable[tuple[bool, int]], lent: bytes, *, back: bool
    ) -> tuple[int, bytes]:
        """Result of a function, and the bytes that were lent to it, if it gives them ``back``.

        An argument is an integer, or, after True, a place among the lent bytes.
        """
        self.free()
        rows = pack_rows(number for pair in arguments for number in pair)
        given = (function, rows, bytearray(lent or b"\0"))
        if not back:
            return int(self.call("invoke", *given, None)), b""
        with self._explained():
            array = tvm.nd.empty((len(lent),), "uint8", self._session.cpu())
        returned = int(self.call("invoke", *given, array))
        with self._explained():
            return returned, bytes(array.numpy().tobytes())

    def free_later(self, function: int, address: int) -> None:
        """Free by a function with the next :meth:`free`; for finalizers, which run at any time."""
        self._unused.append((function, address))

    def free(self) -> None:
        """Free what was handed to :meth:`free_later`."""
        if self._unused:
            unused, self._unused = self._unused, []
            self.call("free", pack_rows(number for pair in unused for number in pair))

    def close(self) -> None:
        """Give the device back; may be called twice."""
        session, self._session = self._session, None
        if session is None:
            return
        if self._broken is None:
            with suppress(tvm.TVMError):
                session.get_function("CloseRPCConnection")()
        self._broken = self._broken or "the connection was closed"
        self._functions.clear()
        self._modules.clear()
        if self._socket is not None:
            with self._socket, suppress(OSError):  # the other side may have been first
                self._socket.shutdown(socket.SHUT_RDWR)

    def _start(self, lanes: Path) -> None:
        if self._socket is not None:
            # Not settimeout(): it makes the socket non-blocking, for TVM's handle of it, too. The
            # limit is a `struct timeval`.
            limit = struct.pack("ll", ANSWER_LIMIT_S, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        try:
            self.lanes = self.load(lanes)
            """Path on the device of the lane executor."""
        except CostError as error:
            if self._broken is not None:
                raise
            compiler = self.address.cross_compiler or "the C compiler of this machine"
            raise HostError(
                f"what {compiler} made does not run there: {error}; give a C compiler for its "
                "processor (DeviceOptions.cross_compiler)"
            ) from error
        self.call("limits", CALL_LIMIT_S, IDLE_LIMIT_S)
        cores, machine, cpuinfo = self.text("describe").split("\n", 2)
        self.cores = int(cores)
        """Number of cores that the device's server may use."""
        self.machine, self.cpuinfo = machine, cpuinfo
        """Architecture, as ``uname -m`` gives it, and first part of ``/proc/cpuinfo``."""

    def _receive(self, size_bytes: int, name: str, *arguments: Any) -> bytes:
        with self._explained():
            array = tvm.nd.empty((size_bytes,), "uint8", self._session.cpu())
        self.call(name, *arguments, array)
        with self._explained():
            return bytes(array.numpy().tobytes())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Context that turns TVM's errors into errors that name the device."""
        if self._broken is not None:
            raise self._lost()
        try:
            yield
        except tvm.error.RPCError as error:  # the device is well, what it was asked for failed
            raise CostError(f"{self.address.as_text()}: {_reason(error)}") from error
        except tvm.TVMError as error:
            self._broken = _why(error)
            raise self._lost() from error
        except KeyboardInterrupt:
            # The next call would take the answer to this one for its own.
            self._broken = "a call was interrupted"
            raise

    def _lost(self) -> LostSessionError:
        return LostSessionError(
            f"{self.address.as_text()} was lost: {self._broken}; prices so far are kept, and the "
            f"same call goes on from there once it is back: {self.address.commands}"
        )


def pack_rows(numbers: Iterable[int]) -> bytearray:
    """Numbers as bytes for the device: little-endian, eight bytes each."""
    values = list(numbers)
    return bytearray(struct.pack(f"<{len(values)}q", *values))


def _reason(error: Exception) -> str:
    """Reason of a failure on the device; TVM only sends texts of errors of C code."""
    text = last_line(error)
    if text.startswith("RPCError"):
        return "TVM's server there could not load a library, and printed why"
    return text


def _why(error: Exception) -> str:
    text = last_line(error)
    if "temporarily unavailable" in text:
        return f"no answer within {ANSWER_LIMIT_S} s"
    if "kShutdown" in text:
        return "it closed the connection, as it does when its server ends or a kernel crashes"
    return text.rpartition("Error:")[2]  # the rest names a C++ function
