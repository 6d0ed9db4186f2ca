"""A connection to a real server: what passes through it, and every way to lose it."""

from __future__ import annotations

import os
import platform
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from tvm_ios.errors import CostError, HostError
from tvm_ios.runtime.rpc import address as remote_address
from tvm_ios.runtime.rpc import connection as remote_connection
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.runtime.rpc.connection import RemoteConnection, pack_rows

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code


def address_of(device, **changes):
    return DeviceAddress(host=device.host, port=device.port, key=device.key, **changes)


def call_until_it_fails(connection):
    """A process that was killed may still answer once."""
    while True:
        connection.allocate(8)


@pytest.fixture(scope="module")
def connection(loopback_tracker):
    with RemoteConnection(address_of(loopback_tracker)) as connection:
        yield connection


def test_a_device_says_what_it_is(connection):
    assert 1 <= connection.cores <= len(os.sched_getaffinity(0))
    assert connection.machine == platform.machine()
    assert Path("/proc/cpuinfo").read_text().startswith(connection.cpuinfo[:20])


def test_memory_is_zeroed_written_in_pieces_and_read(connection, monkeypatch):
    monkeypatch.setattr(remote_connection, "WRITE_BYTES", 1000)
    address = connection.allocate(5000)
    assert address % 64 == 0
    assert connection.read(address, 5000) == bytes(5000)
    data = np.random.default_rng(0).bytes(4097)
    connection.write(address + 3, data)
    assert connection.read(address, 5000) == bytes(3) + data + bytes(900)
    connection.free_later(connection.find("", "free"), address)
    connection.free()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_made_up_numbers_have_the_mean_and_width_asked_for(connection, dtype):
    count, bits = 10_000, np.dtype(dtype).itemsize * 8
    address = connection.allocate(count * bits // 8)
    fill = struct.pack("<qqqdd", address, count, bits, 0.0, 2.0)
    connection.call("fill", bytearray(fill))
    values = np.frombuffer(connection.read(address, count * bits // 8), dtype)
    assert set(np.unique(values * 32)) <= set(range(-64, 65))
    assert abs(values.mean()) < 0.1
    assert abs(values.std() - 2 / 3**0.5) < 0.1


def test_what_fails_there_names_the_device_and_breaks_nothing(connection, loopback_tracker):
    with pytest.raises(CostError, match="no memory for 1152921504606846976 bytes") as caught:
        connection.allocate(1 << 60)
    assert f"key {loopback_tracker.key!r}" in str(caught.value)
    assert f"port {loopback_tracker.port}" in str(caught.value)
    assert connection.allocate(1) > 0


def test_what_is_no_library_cannot_be_loaded(connection, tmp_path):
    path = tmp_path / "kernels.so"
    path.write_bytes(b"no library")
    with pytest.raises(CostError, match="could not load a library, and printed why"):
        connection.load(path)
    assert connection.allocate(1) > 0


def test_rows_are_little_endian():
    assert pack_rows([1, -1]) == b"\1" + bytes(7) + b"\xff" * 8


def test_a_device_in_use_is_not_waited_for_without_end(loopback_tracker, connection, monkeypatch):
    monkeypatch.setattr(remote_address, "WAIT_LIMIT_S", 0.5)
    with pytest.raises(CostError, match=r"was not free for 0\.5 s; .*query_rpc_tracker"):
        RemoteConnection(address_of(loopback_tracker))


def test_a_missing_tracker_is_named():
    nowhere = DeviceAddress(host="127.0.0.1", port=1, key="xavier")
    with pytest.raises(CostError, match=r"port 1 \(key 'xavier'\) does not answer: Connection"):
        RemoteConnection(nowhere)


def test_a_missing_compiler_is_named(loopback_tracker):
    with pytest.raises(HostError, match="no C compiler 'no-such-gcc -O1'"):
        RemoteConnection(address_of(loopback_tracker, cross_compiler="no-such-gcc -O1"))


def test_a_compiler_for_another_processor_is_named(start_rpc_server, tmp_path):
    compiler = tmp_path / "other-gcc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho code > "$2"\n')
    compiler.chmod(0o755)
    with start_rpc_server("other") as device:
        with pytest.raises(HostError, match="other-gcc made does not run there: .*key 'other'"):
            RemoteConnection(address_of(device, cross_compiler=str(compiler)))
        assert device.becomes_free()


def test_a_closed_connection_gives_the_device_back(start_rpc_server):
    with start_rpc_server("once") as device:
        for _ in range(2):
            connection = RemoteConnection(address_of(device))
            memory = connection.allocate(8)
            connection.close()
            connection.close()
            with pytest.raises(CostError, match="the connection was closed"):
                connection.read(memory, 8)
            assert device.becomes_free()


def test_a_killed_server_is_named_and_told_how_to_start(start_rpc_server):
    with start_rpc_server("doomed") as device:
        connection = RemoteConnection(address_of(device))
        device.kill()
        with pytest.raises(CostError) as caught:
            call_until_it_fails(connection)
        connection.close()
    message = str(caught.value)
    assert f"key 'doomed' of the RPC tracker at host '127.0.0.1', port {device.port}" in message
    assert "prices so far are kept" in message
    assert f"python -m tvm.exec.rpc_server --tracker {device.address} --key doomed" in message


def test_a_server_that_stops_answering_is_given_up(start_rpc_server, monkeypatch):
    monkeypatch.setattr(remote_connection, "ANSWER_LIMIT_S", 1)
    with start_rpc_server("frozen") as device:
        connection = RemoteConnection(address_of(device))
        os.killpg(device.server, 19)  # SIGSTOP
        with pytest.raises(CostError, match="was lost: no answer within 1 s"):
            connection.allocate(8)
        start = time.monotonic()
        connection.close()
        assert time.monotonic() - start < 30


def test_a_host_that_is_gone_does_not_keep_the_device(start_rpc_server, monkeypatch):
    monkeypatch.setattr(remote_connection, "IDLE_LIMIT_S", 1)
    with start_rpc_server("left") as device:
        connection = RemoteConnection(address_of(device))
        assert device.becomes_free()
        with pytest.raises(CostError, match="key 'left'.*was lost"):
            connection.allocate(8)
        connection.close()
