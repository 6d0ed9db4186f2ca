"""A tracker that is asked without TVM: TVM's numbers, and what is no tracker."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tvm.rpc import base

from tvm_ios.errors import JobError
from tvm_ios.jobs.tracker import MAGIC, SUMMARY, TrackerAddress


def is_listed(text):
    return asyncio.run(TrackerAddress.of(text).servers()) > 0


def test_the_numbers_are_those_of_tvm():
    assert (MAGIC, SUMMARY) == (base.RPC_TRACKER_MAGIC, base.TrackerCode.SUMMARY)


@pytest.mark.slow
def test_a_device_is_listed_until_its_server_is_killed(start_rpc_server):
    with start_rpc_server("listed") as device:
        assert is_listed(f"{device.address}:listed")
        assert not is_listed(f"{device.address}:liste")
        device.kill()
        while is_listed(f"{device.address}:listed"):
            pass


def test_where_no_tracker_answers_nothing_is_listed():
    assert not is_listed("127.0.0.1:1:board")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        port = listener.getsockname()[1]

        async def ask():
            asked = asyncio.ensure_future(TrackerAddress.of(f"127.0.0.1:{port}:board").servers())
            await asyncio.sleep(0.05)
            stranger, _ = listener.accept()
            with stranger:
                stranger.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return await asked

        assert not asyncio.run(ask())


@pytest.mark.parametrize("text", ["board", "127.0.0.1:9190", "::1:9190:board", "host:port:board"])
def test_what_is_no_address_is_named(text):
    with pytest.raises(JobError, match="give HOST:PORT"):
        TrackerAddress.of(text)


def test_the_command_that_brings_a_device_back():
    address = TrackerAddress.of("[::1]:9190:a:b")
    assert address.command.endswith("rpc_server --tracker [::1]:9190 --key a:b")
