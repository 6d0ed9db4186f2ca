"""Connections to a device of TVM's RPC tracker, without endless waiting.

TVM's own client waits for a device as long as others use it, and for an answer as long as the
connection stands, even if the other machine has lost power.
"""

from __future__ import annotations

import os
import re
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import rpc
from tvm.rpc import base

from tvm_ios.errors import CostError, LostSessionError, OptionError
from tvm_ios.runtime.base.tvm_names import require_packed
from tvm_ios.support.error_text import lines_that_tell

__all__ = [
    "DeviceAddress",
    "ask_tracker",
    "connect_device",
    "last_line",
    "server_command",
    "tracker_keys",
]

WAIT_LIMIT_S = 60.0
"""Seconds to wait for a device that others use."""
RETRY_S = 0.2
LOOK_S = 2.0
"""Seconds between two checks that the awaited device is still there."""
ANSWER_S = 5.0
"""Seconds to wait for a tracker's answer, which takes a millisecond; other programs never
answer."""
SERVER = "server:"
"""Prefix of a server's key where a tracker lists its servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAddress:
    """A device by tracker and key, and the compiler of code for it."""

    host: str
    """Host of the tracker."""
    port: int
    """Port of the tracker."""
    key: str
    cross_compiler: str | None = None
    """Command of a C compiler for the device; None for this machine's compiler."""

    @classmethod
    def granted(cls, text: str) -> DeviceAddress:
        """The device that a gate names, ``host:port:key`` of an RPC tracker; IPv6 in brackets.

        Examples
        --------
        >>> DeviceAddress.granted("127.0.0.1:9190:board-7").as_text()
        "the device with key 'board-7' of the RPC tracker at host '127.0.0.1', port 9190"
        """
        match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5}):(.+)", text)
        if match is None:
            raise OptionError(
                f"the gate grants a device at {text!r}; give host:port:key of an RPC tracker, such "
                "as 127.0.0.1:9190:board-7"
            )
        host, port, key = match.groups()
        return cls(host=host.strip("[]"), port=int(port), key=key)

    def at(self, text: str) -> DeviceAddress:
        """The device that a gate names, compiled for like this one; this one for an empty text."""
        return replace(self.granted(text), cross_compiler=self.cross_compiler) if text else self

    def as_text(self) -> str:
        """The device's name in error messages."""
        return (
            f"the device with key {self.key!r} of the RPC tracker at host {self.host!r}, "
            f"port {self.port}"
        )

    @property
    def tracker(self) -> str:
        """The tracker as ``HOST:PORT``, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def commands(self) -> str:
        """Commands that start a server and list the users, as a sentence part."""
        return (
            f"{server_command(self.host, self.port, self.key)} starts a server, and "
            f"python -m tvm.exec.query_rpc_tracker --host {self.host} --port {self.port} lists them"
        )


def server_command(host: str, port: int, key: str) -> str:
    """The command that registers a device at a tracker; an IPv6 address gets brackets."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"python -m tvm.exec.rpc_server --tracker {bracketed}:{port} --key {key}"


def tracker_keys(host: str, port: int, *, timeout_s: float = ANSWER_S) -> list[str]:
    """Keys of all devices of a tracker, busy ones included, one for each server.

    ``timeout_s`` is that of :func:`ask_tracker`.
    """
    code, summary = ask_tracker(host, port, (base.TrackerCode.SUMMARY,), timeout_s=timeout_s)
    if code != base.TrackerCode.SUCCESS:
        raise ValueError(f"asked for a summary, it answers with code {code}")
    servers = [str(server.get("key", "")) for server in summary["server_info"]]
    return [server.removeprefix(SERVER) for server in servers if server.startswith(SERVER)]


def ask_tracker(
    host: str,
    port: int,
    request: Sequence[Any],
    *,
    timeout_s: float,
    look: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Answer of a tracker to one request, in JSON; its first item is a ``TrackerCode``.

    A request is a ``TrackerCode`` and its arguments. To connect, to greet and to answer may take
    ``timeout_s`` each. ``look`` is called every two seconds until the answer begins; what it raises
    ends the waiting.
    """
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        magic = struct.pack("<i", base.RPC_TRACKER_MAGIC)
        connection.sendall(magic)
        greeting = base.recvall(connection, len(magic))
        if greeting != magic:
            raise ValueError(f"its first four bytes are {greeting.hex()}, not {magic.hex()}")
        base.sendjson(connection, list(request))
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > LOOK_S:
            if select.select([connection], [], [], min(left, LOOK_S))[0]:
                break
            look()
        connection.settimeout(max(deadline - time.monotonic(), RETRY_S))
        answer: list[Any] = base.recvjson(connection)
        return answer


def connect_device(address: DeviceAddress) -> tuple[Any, socket.socket | None]:
    """TVM's session on a free device, and our own handle of its socket."""
    require_packed("lanes of other machines are reached over RPC")
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        host, port, key = _request(address, deadline - time.monotonic())
        before = _sockets()
        try:
            session = rpc.connect(host, port, key)
        except tvm.TVMError as error:  # a server that was killed leaves its address behind
            if time.monotonic() > deadline:
                raise CostError(
                    f"{address.as_text()} cannot be reached at {host}:{port}: "
                    f"{last_line(error)}; {address.commands}"
                ) from error
            time.sleep(RETRY_S)
            continue
        return session, _duplicate(_sockets() - before, port)


def last_line(error: Exception) -> str:
    """The line of TVM's error text that matters: the last one, below a stack of C++ functions."""
    return lines_that_tell(error, type(error).__name__)[-1].removeprefix("TVMError: ")


def _request(address: DeviceAddress, wait_s: float) -> tuple[str, int, str]:
    """Host, port and match key of a device."""
    try:
        request = (base.TrackerCode.REQUEST, address.key, "", 1)
        timeout_s = max(RETRY_S, wait_s)
        code, answer = ask_tracker(
            address.host,
            address.port,
            request,
            timeout_s=timeout_s,
            look=lambda: _require_key(address),
        )
    except TimeoutError as error:
        raise CostError(
            f"{address.as_text()} was not free for {WAIT_LIMIT_S:g} s; {address.commands}"
        ) from error
    except (OSError, ValueError) as error:
        kind = LostSessionError if isinstance(error, OSError) else CostError
        raise kind(
            f"the RPC tracker at host {address.host!r}, port {address.port} (key {address.key!r}) "
            f"does not answer: {getattr(error, 'strerror', None) or error}; prices so far are "
            "kept, start it again: "
            f"python -m tvm.exec.rpc_tracker --host {address.host} --port {address.port}"
        ) from error
    if code != base.TrackerCode.SUCCESS:
        raise CostError(f"{address.as_text()} was refused: {answer}; {address.commands}")
    host, port, key = answer
    return host, port, key


def _require_key(address: DeviceAddress) -> None:
    """Refuse to wait for a device that its tracker has no more."""
    if address.key not in tracker_keys(address.host, address.port):
        raise LostSessionError(
            f"{address.as_text()} has gone while it was waited for; {address.commands}"
        )


def _sockets() -> set[tuple[int, int]]:
    """Descriptor and inode of every open socket of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - they are numbers, not paths
        try:
            status = os.fstat(int(name))
        except OSError:
            continue  # the one that listed the folder
        if stat.S_ISSOCK(status.st_mode):
            # A descriptor that was closed and given out again meanwhile has another inode.
            found.add((int(name), status.st_ino))
    return found


def _duplicate(new: set[tuple[int, int]], port: int) -> socket.socket | None:
    """Our own handle of the socket that TVM has just opened; None if it is not found.

    TVM lets nobody set its options, and without a time limit it waits forever for a device that has
    lost power.
    """
    for descriptor, _ in new:
        try:
            duplicate = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue  # closed meanwhile: somebody else's
        try:
            if duplicate.getpeername()[1] == port:
                return duplicate
        except OSError:
            pass  # not connected: somebody else's
        duplicate.close()
    return None
