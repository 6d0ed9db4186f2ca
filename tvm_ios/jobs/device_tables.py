"""Devices of a jobs file, and which of them a job is tuned for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.resources import Device, DeviceKind, DeviceWish
from tvm_ios.jobs.table_values import checked, member
from tvm_ios.jobs.tracker import TrackerAddress

__all__ = ["kind_for", "read_devices", "usual_device", "wished_device"]

_DEVICE_KEYS: Mapping[str, Any] = {
    "name": str,
    "kind": str,
    "core": int,
    "rpc_tracker": str,
    "rpc_key": str,
    "escorted": bool,
    "node": str,
}


def read_devices(rows: Sequence[Mapping[str, Any]], *, on_nodes: bool) -> tuple[Device, ...]:
    """The devices of ``[[device]]``; each names its node where jobs run on those of a cluster."""
    devices = tuple(_device(row, on_nodes=on_nodes) for row in rows)
    _require_one_gpu(devices)
    return devices


def usual_device(cores: Sequence[int], node: str = "") -> Device:
    """The device of a machine where nobody names one; on a node, it is named after that."""
    # The last core: interrupts and the daemon mostly live on the first.
    return Device(name=node or "cpu0", kind=DeviceKind.CORE, core=cores[-1], node=node)


def kind_for(target: str) -> DeviceKind:
    """The kind of device that a job may run on which names none."""
    return DeviceKind.GPU if target.startswith("cuda") else DeviceKind.CORE


def wished_device(
    name: str, key: str, target: str, devices: Sequence[Device], where: str, *, on_nodes: bool
) -> DeviceWish:
    """The devices that a job may be tuned for: the one that it names, or any that fits its target.

    The only device of all will do for any target but one for another kind of processor, and so will
    any board where all are boards with one key. Nodes of a cluster may bring devices that nobody
    has named. A job names a device, or the key of boards of which each will do, or neither.
    """
    if name and key:
        raise JobError(f"{where}device is {name!r} and rpc_key {key!r}; keep one of both")
    by_name = {device.name: device for device in devices}
    if name in by_name:
        return _only(by_name[name])
    if on_nodes and not devices and not key:
        return DeviceWish(name, None if name else kind_for(target))
    listed = ", ".join(f"{device.name} ({device.kind.value})" for device in devices)
    if name:
        raise JobError(f"{where}there is no device {name!r}; there are {', '.join(by_name)}")
    keys = {device.key for device in devices}
    if key and key not in keys:
        raise JobError(f"{where}no device has the rpc_key {key!r}; there are {listed or 'none'}")
    if key:
        return DeviceWish(kind=DeviceKind.RPC, key=key)
    kind = kind_for(target)
    if not target or (kind is DeviceKind.GPU) is _is_gpu(devices[0]):
        if len(devices) == 1:
            return _only(devices[0])
        if len(keys) == 1 and "" not in keys:
            return DeviceWish(kind=DeviceKind.RPC, key=devices[0].key)
    if any(device.kind is kind for device in devices):
        return DeviceWish(kind=kind)
    aim = f"target {target!r}" if target else "target, a processor of this kind of machine"
    raise JobError(
        f"{where}no device fits its {aim}; there are {listed}: name the one that it is tuned for, "
        f'device = "{devices[0].name}"'
    )


def _only(device: Device) -> DeviceWish:
    return DeviceWish(device.name, device.kind, device.key)


def _is_gpu(device: Device) -> bool:
    return device.kind is DeviceKind.GPU


def _require_one_gpu(devices: Sequence[Device]) -> None:
    first: dict[str, str] = {}
    for device in filter(_is_gpu, devices):
        other = first.setdefault(device.node, device.name)
        if other != device.name:
            where = f"node {device.node!r}" if device.node else "this machine"
            raise JobError(
                f"devices {other!r} and {device.name!r} are both GPUs of {where}, and jobs measure "
                "on cuda(0) only; keep one of them, or start an RPC server for each GPU, with its "
                'CUDA_VISIBLE_DEVICES, and reach them as devices of kind "rpc"'
            )


def _device(table: Mapping[str, Any], *, on_nodes: bool) -> Device:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise JobError(f'a [[device]] has the name {name!r}; give name = "cpu0"')
    where = f"device {name!r}: "
    known = checked(table, _DEVICE_KEYS, where)
    kind = member(DeviceKind, known.pop("kind", "core"), f"{where}kind")
    tracker, key = known.pop("rpc_tracker", ""), known.pop("rpc_key", "")
    if bool(tracker and key) != (kind is DeviceKind.RPC) or bool(tracker) != bool(key):
        raise JobError(
            f"{where}kind is {kind.value!r}, rpc_tracker {tracker!r} and rpc_key {key!r}; a device "
            'of kind "rpc" has both, such as "127.0.0.1:9190" and "board-7", and others have none'
        )
    address = f"{tracker}:{key}" if tracker else ""
    if address:
        TrackerAddress.of(address)
    if kind is not DeviceKind.RPC and not known.get("escorted", True):
        raise JobError(
            f'{where}escorted is false, which is for kind "rpc": profiles of kind {kind.value!r} '
            "take a core of this machine; leave it out"
        )
    node = known.get("node", "")
    if on_nodes is not bool(node):
        raise JobError(
            f'{where}node is {node!r}; with executor = "ray" each device names the node it is on, '
            'as node = "NAME", and else none does'
        )
    return Device(kind=kind, address=address, key=key, **known)
