"""The processor of a device of an RPC tracker: stages are priced there, and libraries opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.runtime.rpc.address import DeviceAddress
from tvm_ios.runtime.rpc.code import RemoteCode, RemoteRuntime
from tvm_ios.runtime.rpc.connection import RemoteConnection
from tvm_ios.runtime.rpc.kernels import RemoteKernels, load_there
from tvm_ios.runtime.rpc.lanes import RemotePool
from tvm_ios.support.c_compiler import NativeSource, compile_shared

__all__ = ["RemoteProcessor"]


class RemoteProcessor:
    """A device, held from its first use until it is given back, and from the next use again.

    A :class:`~tvm_ios.runtime.libraries.processor.Processor`, whose docstrings hold here, too.
    """

    def __init__(self, address: DeviceAddress, name: str, cores: int) -> None:
        self.name = name
        self.cores = cores
        self.address = address
        """Tracker and key to take the device by, the next time."""
        self._runtime: RemoteRuntime | None = None
        self._kernels: dict[Path, RemoteKernels] = {}

    @property
    def place(self) -> str:
        """Place in messages."""
        return f" on {self.address.as_text()}"

    @property
    def runtime(self) -> RemoteRuntime:
        """Lane executor there, on a connection of its own."""
        if self._runtime is None:
            connection = RemoteConnection(self.address)
            try:
                self._runtime = RemoteRuntime(connection)
            except BaseException:
                connection.close()
                raise
        return self._runtime

    def give_back(self) -> None:
        """Let others have the device; whatever was made there is gone."""
        runtime, self._runtime = self._runtime, None
        self._kernels.clear()
        if runtime is not None:
            runtime.connection.close()

    @property
    def lane(self) -> LibraryLane:
        """Any lane of its pools."""
        return self.runtime.lane

    def code(self, source: NativeSource, function: str) -> RemoteCode:  # noqa: ARG002 - it has it
        """A C file that was compiled for the device, uploaded and loaded."""
        connection = self.runtime.connection
        compiler = self.address.cross_compiler
        return RemoteCode(
            connection, connection.load(compile_shared(source.path, compiler=compiler))
        )

    def pool(self, lanes: int) -> RemotePool:
        """A pool of lanes there."""
        return RemotePool(self.runtime, lanes)

    def kernels(self, path: Path, params: Mapping[str, Any]) -> RemoteKernels:
        """Kernels on the device, uploaded on first use."""
        if path not in self._kernels:
            self._kernels[path] = RemoteKernels(self.runtime, path, params)
        return self._kernels[path]

    def load(
        self,
        plan: ExecutionPlan,
        params: Mapping[str, Any],
        path: Path | None = None,
        calls: LaunchCalls | None = None,
    ) -> tuple[LoadedPlan, object]:
        """A plan over memory there."""
        kernels = None if path is None else self.kernels(path, params)
        return load_there(self.runtime, plan, kernels, calls, scattered=True)
