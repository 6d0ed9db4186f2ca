"""Asking for a device, without one: who answers in its place is told in one line."""

from __future__ import annotations

import socket
import threading

import pytest

from tvm_ios.errors import CostError
from tvm_ios.runtime.rpc.address import DeviceAddress, connect_device, server_command


def test_an_ipv6_address_of_a_server_command_has_brackets():
    assert "--tracker [::1]:9190 --key pi" in server_command("::1", 9190, "pi")
    assert "--tracker 127.0.0.1:9190 --key pi" in server_command("127.0.0.1", 9190, "pi")


def test_a_stranger_at_the_trackers_port_gives_no_device():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        address = DeviceAddress(host="127.0.0.1", port=listener.getsockname()[1], key="pi")
        try:
            with pytest.raises(CostError, match="its first four bytes are 48545450"):
                connect_device(address)
        finally:
            thread.join()
