"""The devices of an RPC tracker, asked in an event loop and without TVM."""

from __future__ import annotations

import asyncio
import json
import re
import struct
from contextlib import suppress
from dataclasses import dataclass

from tvm_ios.errors import JobError

__all__ = ["MAGIC", "SUMMARY", "TrackerAddress"]

MAGIC = 0x2F271
"""Number that both sides say first: ``tvm.rpc.base.RPC_TRACKER_MAGIC``."""
SUMMARY = 6
"""The question who is there: ``tvm.rpc.base.TrackerCode.SUMMARY``."""
_PREFIX = "server:"
_LIMIT_S = 5.0
_INT = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class TrackerAddress:
    """A device by its tracker and its key."""

    host: str
    port: int
    key: str

    @classmethod
    def of(cls, text: str) -> TrackerAddress:
        """The address in ``host:port:key``; IPv6 in brackets.

        Examples
        --------
        >>> TrackerAddress.of("[::1]:9190:board:7")
        TrackerAddress(host='::1', port=9190, key='board:7')
        """
        match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5}):(.+)", text)
        if match is None:
            raise JobError(
                f"the RPC tracker and the key of a device are {text!r}; give HOST:PORT, such as "
                "127.0.0.1:9190, an IPv6 address in brackets, and a key"
            )
        host, port, key = match.groups()
        return cls(host.strip("[]"), int(port), key)

    @property
    def tracker(self) -> str:
        """The tracker as ``HOST:PORT``, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def command(self) -> str:
        """The command that starts a server for the device."""
        return f"python -m tvm.exec.rpc_server --tracker {self.tracker} --key {self.key}"

    async def servers(self) -> int:
        """Servers that the tracker has for it, be they in use; 0 where it does not answer."""
        with suppress(OSError, ValueError, LookupError, TypeError, EOFError, struct.error):
            async with asyncio.timeout(_LIMIT_S):
                summary = await _asked(self.host, self.port)
            servers = [str(server.get("key", "")) for server in summary[1]["server_info"]]
            return servers.count(f"{_PREFIX}{self.key}")
        return 0


async def _asked(host: str, port: int) -> list[dict[str, list[dict[str, str]]]]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        question = json.dumps([SUMMARY]).encode()
        writer.write(_INT.pack(MAGIC))
        if await reader.readexactly(_INT.size) != _INT.pack(MAGIC):
            raise ValueError("it is no tracker")
        writer.write(_INT.pack(len(question)) + question)
        (size,) = _INT.unpack(await reader.readexactly(_INT.size))
        answer: list[dict[str, list[dict[str, str]]]] = json.loads(await reader.readexactly(size))
        return answer
    finally:
        writer.close()
