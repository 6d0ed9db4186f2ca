"""Functions of C on a device, called as ctypes would call them here."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_double, c_int, c_size_t, c_void_p

import pytest

from tvm_ios.errors import LostSessionError
from tvm_ios.runtime.base.native_runtime import address_of
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.runtime.rpc.code import RemoteCode
from tvm_ios.runtime.rpc.connection import RemoteConnection

pytestmark = pytest.mark.slow  # a tracker, servers, and each runs compiled code


def connected(device):
    return RemoteConnection(DeviceAddress(host=device.host, port=device.port, key=device.key))


@pytest.fixture(scope="module")
def connection(loopback_tracker):
    with connected(loopback_tracker) as connection:
        yield connection


@pytest.fixture
def process(connection):
    return RemoteCode(connection)


def test_integers_texts_and_addresses_come_back(process, connection):
    assert process.abs(-7) == 7
    assert process.atoi(b"-12\0") == -12
    memory = process["malloc"]
    memory.restype = c_void_p
    address = memory(c_size_t(8))
    connection.write(address, b"written\0")
    said = process["strchr"]
    said.restype = c_char_p
    assert said(c_void_p(address), ord("t")) == b"tten"
    assert said(address, ord("x")) is None
    process.free(address)


def test_what_is_lent_comes_back_changed(process):
    text, number = ctypes.create_string_buffer(32), c_double()
    assert process.snprintf(text, c_size_t(32), b"%d-%s\0", 42, b"end\0") == 6
    assert text.value == b"42-end"
    end = c_void_p(1)
    assert process.strtol(b"99 rest\0", ctypes.byref(end), 10) == 99
    assert process.sscanf(b"2.5\0", b"%lf\0", ctypes.byref(number)) == 1
    assert number.value == 2.5


def test_a_function_has_an_address_or_is_missing(process):
    assert address_of(process, "abs") == process["abs"].address > 0
    assert not hasattr(process, "no_such_function")
    with pytest.raises(AttributeError, match="the process has no function 'no_such_function'"):
        process["no_such_function"]


def test_only_who_wants_an_answer_hears_that_the_device_is_gone(start_rpc_server):
    with start_rpc_server("gone") as device:
        connection = connected(device)
        silent, telling = RemoteCode(connection)["free"], RemoteCode(connection)["abs"]
        silent.restype, telling.restype = None, c_int
        connection.close()
        assert silent(0) is None
        with pytest.raises(LostSessionError, match="the connection was closed"):
            telling(1)
