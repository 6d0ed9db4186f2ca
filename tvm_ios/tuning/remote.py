"""TVM's RPC tracker: its address, and whether it has a device, asked before anything waits.

TVM itself retries a refused connection for a minute, and waits without end for a key that no server
has registered. Asked for its list, the tracker answers within seconds.
"""

from __future__ import annotations

import re
import struct
import tempfile
from pathlib import Path

import tvm

from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.remote import RemoteDevice
from tvm_ios.errors import DeviceLostError, OptionError, TuningError
from tvm_ios.host import processor_name, target_candidates
from tvm_ios.runtime.rpc.address import ANSWER_S, DeviceAddress, server_command, tracker_keys
from tvm_ios.runtime.rpc.connection import RemoteConnection
from tvm_ios.support.stage_gate import StageGate, StageNeed
from tvm_ios.tuning.device_options import DeviceOptions

__all__ = [
    "find_device",
    "granted_device",
    "parse_tracker",
    "requested_device",
    "require_device",
    "require_tracker",
]

TIMEOUT_S = ANSWER_S
"""Seconds to wait for a tracker's answer to whether it has a device."""


def parse_tracker(text: str) -> tuple[str, int]:
    """Host and port of a tracker's address, ``HOST:PORT``; IPv6 in brackets, ``[::1]:9190``.

    Examples
    --------
    >>> parse_tracker("127.0.0.1:9190")
    ('127.0.0.1', 9190)
    >>> parse_tracker("[::1]:9190")
    ('::1', 9190)
    """
    host, _, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    bare_v6 = ":" in host and not bracketed
    is_port = re.fullmatch("[0-9]{1,5}", port) is not None and 0 < int(port) < 65536
    if not name or bare_v6 or not is_port:
        raise OptionError(
            f"rpc_tracker is {text!r}; give HOST:PORT, such as 127.0.0.1:9190, and an IPv6 "
            "address in brackets, such as [::1]:9190"
        )
    return name, int(port)


def require_tracker(text: str, key: str) -> int:
    """Number of devices that a tracker (``HOST:PORT``) has under a key, busy ones included."""
    host, port = parse_tracker(text)
    try:
        keys = tracker_keys(host, port, timeout_s=TIMEOUT_S)
    except OSError as error:
        raise TuningError(
            f"no RPC tracker answers at host {host!r}, port {port} (key {key!r}): {_why(error)}; "
            f"{_commands(host, port, key)}"
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise TuningError(
            f"what listens at host {host!r}, port {port} (key {key!r}) is no RPC tracker: "
            f"{error}; {_commands(host, port, key)}"
        ) from error
    if key in keys:
        return keys.count(key)
    others = f"only {', '.join(sorted(set(keys)))}" if keys else "and none of another"
    raise TuningError(
        f"the RPC tracker at host {host!r}, port {port} has no device with key {key!r}, {others}; "
        f"register one: {server_command(host, port, key)}"
    )


def find_device(tracker: str, key: str, *, cross_compiler: str | None = None) -> RemoteDevice:
    """Device to price stages on, with the facts it reports.

    The arguments are those of :func:`require_tracker` and :class:`DeviceOptions`.
    """
    require_tracker(tracker, key)
    host, port = parse_tracker(tracker)
    address = DeviceAddress(host=host, port=port, key=key, cross_compiler=cross_compiler)
    with RemoteConnection(address) as connection:
        cores, machine, cpuinfo = connection.cores, connection.machine, connection.cpuinfo
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cpuinfo"
        path.write_text(cpuinfo, encoding="utf-8")
        llvm = int(tvm.target.codegen.llvm_version_major())
        targets = target_candidates(llvm, machine=machine, cpuinfo=path)
        processor = processor_name(path) if "model name" in cpuinfo else machine
    return RemoteDevice(address=address, cores=cores, processor=processor, target=targets[0])


def require_device(options: DeviceOptions) -> None:
    """Check that the tracker, where one is named, has the device."""
    if options.rpc_tracker is not None:
        require_tracker(options.rpc_tracker, options.rpc_key or "")


def requested_device(
    options: DeviceOptions, *, here: MeasuringDevice, gate: StageGate
) -> MeasuringDevice:
    """The tracker's device that options name, or ``here`` where they name none.

    The device is asked for its facts in a stage of its own, when the gate allows.
    """
    if options.rpc_tracker is None:
        return here
    with gate.stage(StageNeed.to_profile(1, "ask the device")) as granted:
        return granted_device(options, granted.address)


def granted_device(options: DeviceOptions, address: str) -> RemoteDevice:
    """The tracker's device that options name, or the one that a stage was granted instead.

    The address is :attr:`~tvm_ios.support.stage_gate.GrantedStage.address`.
    """
    if not address:
        tracker, key = options.rpc_tracker or "", options.rpc_key or ""
        return find_device(tracker, key, cross_compiler=options.cross_compiler)
    granted = DeviceAddress.granted(address)
    try:
        return find_device(granted.tracker, granted.key, cross_compiler=options.cross_compiler)
    except TuningError as error:
        raise DeviceLostError(f"{granted.as_text()} is lost: {error}") from error


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    return error.strerror or str(error)


def _commands(host: str, port: int, key: str) -> str:
    return (
        f"start one: python -m tvm.exec.rpc_tracker --host {host} --port {port}, and a server for "
        f"it: {server_command(host, port, key)}"
    )
