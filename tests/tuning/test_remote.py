"""The tracker's address and what it has, asked of real trackers, and of what is none."""

from __future__ import annotations

import os
import socket
import threading

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.remote import RemoteDevice
from tvm_ios.errors import OptionError, TuningError
from tvm_ios.host import processor_name
from tvm_ios.support.stage_gate import OpenGate
from tvm_ios.tuning import remote
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.remote import find_device, parse_tracker, requested_device, require_tracker


@given(
    host=st.sampled_from(["localhost", "10.0.0.7", "build-1.example"]), port=st.integers(1, 65535)
)
def test_host_and_port(host, port):
    assert parse_tracker(f"{host}:{port}") == (host, port)


def test_ipv6_stands_in_brackets():
    assert parse_tracker(" [::1]:9190 ") == ("::1", 9190)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        ":9190",
        "localhost:",
        "localhost:x",
        "h:0",
        "h:65536",
        "::1:9190",
        pytest.param("h:" + "9" * 5000, id="too many digits"),
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(OptionError, match="give HOST:PORT, such as 127.0.0.1:9190"):
        parse_tracker(text)


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(TuningError) as caught:
        require_tracker(f"127.0.0.1:{port}", "xavier")
    message = str(caught.value)
    assert f"host '127.0.0.1', port {port} (key 'xavier')" in message
    assert "Connection refused" in message
    assert f"python -m tvm.exec.rpc_tracker --host 127.0.0.1 --port {port}" in message
    assert f"python -m tvm.exec.rpc_server --tracker 127.0.0.1:{port} --key xavier" in message


def test_an_unknown_host_is_named():
    with pytest.raises(TuningError, match="host 'nowhere.invalid', port 9190"):
        require_tracker("nowhere.invalid:9190", "xavier")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_another_server_is_no_tracker(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(TuningError, match="tracker"):
                require_tracker(f"127.0.0.1:{listener.getsockname()[1]}", "xavier")
        finally:
            thread.join()


def test_one_that_never_answers_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(remote, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(TuningError, match=r"no answer within 0\.2 s"):
            require_tracker(address, "xavier")


@pytest.mark.slow(1)
def test_a_tracker_without_the_device(bare_tracker):
    with pytest.raises(TuningError) as caught:
        require_tracker(bare_tracker.address, "xavier")
    message = str(caught.value)
    assert f"host '127.0.0.1', port {bare_tracker.port} has no device with key 'xavier'" in message
    assert f"rpc_server --tracker {bare_tracker.address} --key xavier" in message
    assert "rpc_tracker --host" not in message


@pytest.mark.slow(1)
def test_a_tracker_with_the_device(loopback_tracker):
    assert require_tracker(loopback_tracker.address, loopback_tracker.key) == 1


def test_other_keys_are_named(loopback_tracker):
    with pytest.raises(TuningError, match="no device with key 'xavier', only loopback"):
        require_tracker(loopback_tracker.address, "xavier")


@pytest.mark.slow(1)
def test_a_device_is_described(loopback_tracker):
    device = find_device(loopback_tracker.address, loopback_tracker.key)
    assert 1 <= device.cores <= len(os.sched_getaffinity(0))
    assert device.processor == processor_name()
    assert device.name == f"{processor_name()}, RPC key {loopback_tracker.key}"
    tvm.target.Target(device.target)
    assert device.target.startswith("llvm")


@pytest.mark.slow
def test_the_device_that_is_asked_for_is_found(loopback_tracker):
    options = DeviceOptions(rpc_tracker=loopback_tracker.address, rpc_key=loopback_tracker.key)
    here = LocalCpu()
    device = requested_device(options, here=here, gate=OpenGate())
    assert isinstance(device, RemoteDevice)
    assert device.address.key == loopback_tracker.key
    assert requested_device(DeviceOptions(), here=here, gate=OpenGate()) is here
