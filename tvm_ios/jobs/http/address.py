"""Where a daemon listens: a port of this machine, which only this machine reaches unless asked."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ios.errors import JobError

__all__ = ["bound_to", "url_of"]

_ADDRESS = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:]+)):(?P<port>[0-9]{1,5})")
_BACKLOG = 64


@contextmanager
def bound_to(address: str, *, anywhere: bool) -> Iterator[socket.socket]:
    """A socket that listens there.

    Parameters
    ----------
    address
        ``HOST:PORT``, or ``[HOST]:PORT`` for IPv6; port 0 is any that is free.
    anywhere
        Whether other machines may reach it.

    Raises
    ------
    JobError
        If there is no such address here, it is taken, or others reach it and should not.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) >= 1 << 16:
        raise JobError(f"--http {address} is no HOST:PORT; give one, such as 127.0.0.1:8642")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            match["six"] or match["host"], int(match["port"]), type=socket.SOCK_STREAM
        )[0]
        if not (anywhere or ipaddress.ip_address(place[0]).is_loopback):
            raise JobError(
                f"--http {address} can be reached from other machines, and over plain HTTP "
                "whoever listens in between learns the token, and with it may run jobs here; give "
                "127.0.0.1 and come through ssh -L, or add --http-anywhere"
            )
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(_BACKLOG)
            yield listener
    except OSError as error:
        raise JobError(
            f"--http {address}: {error.strerror or error}; give another port, or 0 for any that is "
            "free"
        ) from error


def url_of(listener: socket.socket) -> str:
    """The URL at which a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
