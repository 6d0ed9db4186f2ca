"""The CPU of a device behind an RPC tracker as a device to measure on.

A session holds the device from its first use on. So it gives it back at the end of each stage of a
job, and none is used while kernels are tuned, since TVM's runners ask the tracker for the same
device.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tvm_ios.devices.protocol import BuiltKernels, MeasuringSession, RunnableModel
from tvm_ios.devices.traits import CPU, DeviceTraits
from tvm_ios.errors import HostError
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.runtime.base.lane_pool import require_lanes
from tvm_ios.runtime.base.native_runtime import REMOTE_LANES
from tvm_ios.runtime.base.tvm_names import linkers
from tvm_ios.runtime.cpu.stage_runner import NativeStageRunner
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, OpenLibraries, uses_libraries
from tvm_ios.runtime.libraries.protocol import FactStore, OperatorLibrary
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.runtime.rpc.executor import RemoteExecutor
from tvm_ios.runtime.rpc.processor import RemoteProcessor

if TYPE_CHECKING:
    from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

__all__ = ["RemoteDevice", "RemoteSession"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteDevice:
    """A CPU behind an RPC tracker, between sessions."""

    address: DeviceAddress
    cores: int
    """Number of cores that its server may use."""
    processor: str
    target: str
    """Best TVM target for its processor."""
    traits: ClassVar[DeviceTraits] = CPU

    @property
    def name(self) -> str:
        """Processor and tracker's key: never the name of this machine's CPU."""
        return f"{self.processor}, RPC key {self.address.key}"

    @property
    def executor_digest(self) -> str:
        """Digest of the lane executor that is sent to the device."""
        return REMOTE_LANES.digest

    @property
    def speeds(self) -> LaneSpeeds:
        """Speeds of a typical core: nothing is measured there."""
        return self.traits.speeds

    @property
    def notes(self) -> tuple[str, ...]:
        """Line that says which device it is."""
        return (f"priced and raced on {self.as_text()}",)

    def require_lanes(self, lanes: int | None) -> int:
        """Number of lanes; all cores of the device where omitted."""
        owner = f"{self.address.as_text()} has"
        return self.cores if lanes is None else require_lanes(lanes, self.cores, owner)

    def cores_for(self, lanes: int) -> int:  # noqa: ARG002 - lanes are there, not here
        """Number of cores that measurements keep busy: one, for the thread that asks and waits."""
        return 1

    def as_text(self) -> str:
        """Device with its processor and cores, for messages."""
        return f"{self.address.as_text()} ({self.processor}, cores: {self.cores})"

    def at(self, address: str) -> RemoteDevice:
        """Another board of the same kind, or this one where the address is empty."""
        return replace(self, address=self.address.at(address))

    def open(self) -> RemoteSession:
        """Session, which takes the device from the tracker on first use."""
        return RemoteSession(self)


class RemoteSession(MeasuringSession):
    """Session with kernels, lanes and models on a device behind a tracker."""

    def __init__(self, device: RemoteDevice) -> None:
        self.device = device
        self.processor = RemoteProcessor(device.address, device.processor, device.cores)
        """Device, which is taken from its tracker when it is used."""
        self._libraries: OpenLibraries | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="tvm-ios-")
        # By the address of the factory, which is kept with it: a freed one's may be used again.
        self._exported: dict[int, tuple[object, Path]] = {}

    @contextmanager
    def in_stage(self, address: str) -> Iterator[None]:
        """Context in which the device at an address may be held; it is given back at the end."""
        before = self.processor.address
        self.processor.address = before.at(address)
        try:
            yield
        finally:
            self._give_back()
            self.processor.address = before

    def export(self, kernels: BuiltKernels) -> Path:
        """Path of the kernels linked for the device; see :meth:`link`."""
        return self.link(kernels.staged.factory)

    def link(self, factory: GraphExecutorFactoryModule) -> Path:
        """Path of TVM's compiled code linked for the device, once."""
        _, path = self._exported.get(id(factory), (None, None))
        if path is not None:
            return path
        path = Path(self._folder.name) / f"{len(self._exported)}.so"
        compiler = shlex.split(self.processor.address.cross_compiler or "")
        link = linkers().cross_compiler(compiler[0], compiler[1:]) if compiler else None
        try:
            factory.get_lib().export_library(str(path), fcompile=link)
        except RuntimeError as error:
            raise HostError(
                f"{' '.join(compiler) or 'the C compiler'} cannot link kernels: {error}; does it "
                f"fit the target {factory.target}?"
            ) from error
        self._exported[id(factory)] = factory, path
        return path

    def stage_runner(self, lanes: int) -> NativeStageRunner:
        """Runner of stages on as many lanes of the device."""
        return NativeStageRunner(self.processor, lanes)

    def executor(self, model: RunnableModel) -> RemoteExecutor:
        """Executor of a whole model on the device, linked and uploaded on first use."""
        params = model.kernels.staged.params
        kernels = self.processor.kernels(self.export(model.kernels), params)
        calls = LaunchCalls(self.libraries()) if uses_libraries(model.plan) else None
        return RemoteExecutor(model.plan, kernels, calls=calls)

    def require(self, library: OperatorLibrary) -> OperatorLibrary:
        """An operator library as it is installed there."""
        return library.require(self.processor)

    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Operator libraries that are installed there."""
        if self._libraries is None:
            self._libraries = OpenLibraries(self.processor, store, target_kind="llvm")
        return self._libraries

    def close(self) -> None:
        """Give the device back; may be called twice."""
        self._give_back()
        self._folder.cleanup()

    def _give_back(self) -> None:
        # Addresses on the device end with its session; linked files lie here and stay.
        if self._libraries is not None:
            self._libraries.release()
        self.processor.give_back()
