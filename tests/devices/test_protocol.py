"""One protocol for all devices: nobody outside asks which one it has, and prices stay valid."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import tvm

from tests.devices.conftest import H100
from tests.source_tree import tree_of
from tvm_ios.compile.dialects import relay
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.remote import RemoteDevice
from tvm_ios.host import processor_name
from tvm_ios.profile.measuring_call import profile_context
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR, REMOTE_LANES
from tvm_ios.runtime.cuda.native_streams import STREAMS_SOURCE
from tvm_ios.runtime.rpc.address import DeviceAddress

ROOT = Path(__file__).resolve().parents[2] / "tvm_ios"
OUTSIDE = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT / "devices")

MITE = RemoteDevice(
    address=DeviceAddress(host="h", port=1, key="k"), cores=2, processor="Mite 3", target="llvm"
)
KEPT_UNDER = [
    (LocalCpu(), processor_name(), LANE_EXECUTOR.digest),
    (MITE, "Mite 3, RPC key k", REMOTE_LANES.digest),
    (H100, "NVIDIA H100 (sm_90), driver for CUDA 12.8", STREAMS_SOURCE.digest),
]
"""Each device with the two parts of a price key that are its own. A change of what stands here
loses every price of the device that somebody has measured."""
DEVICES = [device for device, _, _ in KEPT_UNDER]


def _module(path: Path) -> str:
    return ".".join(["tvm_ios", *path.relative_to(ROOT).with_suffix("").parts])


def _device_classes() -> set[str]:
    """Every class of the room that stands for a device or a session on one."""
    return {
        node.name
        for path in (ROOT / "devices").glob("*.py")
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    }


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def _asked_kinds(tree: ast.AST) -> set[str]:
    """Classes that code tells values apart by."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                found |= _names(node.args[1])
        elif isinstance(node, ast.MatchClass):
            found |= _names(node.cls)
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
            found |= set().union(*map(_names, node.comparators))
    return found


def _optional_classes(tree: ast.AST) -> set[str]:
    """Classes of which None is another value, in annotations and tests of types."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            if any(isinstance(side, ast.Constant) and side.value is None for side in sides):
                found |= _names(node)
    return found


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: type(device).__name__)
def test_every_device_is_one(device: MeasuringDevice) -> None:
    assert isinstance(device, MeasuringDevice)
    assert device.name
    assert device.require_lanes(1) == 1
    assert device.notes in ((), (f"priced and raced on {device.as_text()}",))
    assert tvm.target.Target(device.target).kind.name in ("llvm", "cuda")


@pytest.mark.parametrize(("device", "name", "executor"), KEPT_UNDER)
def test_prices_of_a_device_are_kept_under_what_made_them(
    device: MeasuringDevice, name: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "compilers_here", lambda: ("0.17.0", "abc", "17.0.6"))
    target = tvm.target.Target("llvm -mcpu=skylake-avx512")
    assert profile_context(target, 2, device) == ProfileContext(
        device=name,
        lanes=2,
        tvm_version="0.17.0 abc 17.0.6",
        kernels="llvm -keys=cpu -mcpu=skylake-avx512",
        executor=executor,
        protocol=4,
    )


def test_the_rule_sees_what_it_forbids() -> None:
    kinds = {"GpuDevice", "RemoteSession"}
    assert kinds <= _device_classes()
    for code in (
        "isinstance(device, GpuDevice)",
        "isinstance(device, gpu.GpuDevice | None)",
        "issubclass(type(device), (int, GpuDevice))",
        "type(device) is GpuDevice",
        "match device:\n    case GpuDevice(): pass",
    ):
        assert _asked_kinds(ast.parse(code)) & kinds == {"GpuDevice"}, code
    assert "GpuDevice" in _optional_classes(ast.parse("def f(device: GpuDevice | None): pass"))


@pytest.mark.slow
def test_nobody_outside_asks_which_device_it_is() -> None:
    kinds = _device_classes()
    asked = {_module(path): _asked_kinds(tree_of(path)) & kinds for path in OUTSIDE}
    assert {module: found for module, found in asked.items() if found} == {}


@pytest.mark.slow(1)
def test_a_device_is_never_none_outside() -> None:
    """This machine is ``LocalCpu()``."""
    kinds = _device_classes()
    optional = {_module(path): _optional_classes(tree_of(path)) & kinds for path in OUTSIDE}
    assert {module: found for module, found in optional.items() if found} == {}
