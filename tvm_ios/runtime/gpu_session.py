"""A GPU of this machine as a place to measure on: prices and races are taken there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tvm_ios.runtime.cuda_device import CudaDevice, DeviceFacts, require_arch
from tvm_ios.runtime.cuda_native import streams_digest
from tvm_ios.runtime.cuda_stages import CudaStageRunner
from tvm_ios.runtime.libraries.opened import OpenLibraries
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["GpuDevice", "GpuSession"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """What is known of a GPU between sessions."""

    ordinal: int
    facts: DeviceFacts

    @classmethod
    def find(cls, arch: str, ordinal: int = 0) -> GpuDevice:
        """The GPU of this number.

        Parameters
        ----------
        arch
            What the kernels are compiled for, such as ``sm_90``.

        Raises
        ------
        HostError
            If there is no driver, no such GPU, or one that does not run this code.
        """
        with CudaDevice(ordinal) as gpu:
            require_arch(gpu.facts, arch)
            return cls(ordinal=ordinal, facts=gpu.facts)

    @property
    def name(self) -> str:
        """What its prices are kept under."""
        return f"{self.facts.name} ({self.facts.arch}), {self._driver}"

    @property
    def executor_digest(self) -> str:
        """Digest of what starts its kernels."""
        return streams_digest()

    def as_text(self) -> str:
        """For messages."""
        return (
            f"cuda({self.ordinal}), {self.facts.name}, {self._driver}; prices assume a warm L2 "
            f"cache of {self.facts.l2_bytes / 1e6:.0f} MB"
        )

    def open(self) -> GpuSession:
        """Take its context until the session is closed.

        Raises
        ------
        HostError
            If it is gone.
        """
        return GpuSession(self)

    @property
    def _driver(self) -> str:
        return f"driver for CUDA {self.facts.driver_cuda}"


class GpuSession:
    """Stages on a GPU; a context manager.

    Parameters
    ----------
    device
        The GPU.

    Raises
    ------
    HostError
        If it is gone.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._gpu = CudaDevice(device.ordinal)
        self._libraries: OpenLibraries | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def stage_runner(self, streams: int) -> CudaStageRunner:
        """What runs stages there, on as many streams; to be closed before the session."""
        return CudaStageRunner(streams, self._gpu)

    def libraries(self, store: FactStore | None = None) -> OpenLibraries:
        """Libraries that compute operators there, closed with the session.

        Parameters
        ----------
        store
            Where they keep what they find out; that of the first call counts.
        """
        if self._libraries is None:
            self._libraries = OpenLibraries(self._gpu, store, target_kind="cuda")
        return self._libraries

    @property
    def bus_id(self) -> str:
        """Where the GPU is plugged in, as nvidia-smi knows it."""
        return self._gpu.bus_id

    def close(self) -> None:
        """Let go of the context; may be called twice."""
        try:
            if self._libraries is not None:
                self._libraries.close()
        finally:
            self._gpu.close()
