"""Device options: where kernels, stages and schedules are measured, if not on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["DeviceOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """Device of TVM's RPC tracker, whose server is a stock ``python -m tvm.exec.rpc_server``.

    Kernels are tuned, stages priced and schedules raced there; the result is for that device.

    Raises
    ------
    OptionError
        If there is a tracker without a key, or a key without a tracker.
    """

    rpc_tracker: str | None = None
    """The tracker's ``HOST:PORT``; None measures on this machine."""
    rpc_key: str | None = None
    """Key that the tracker's devices are registered under."""
    cross_compiler: str | None = None
    """Command of a C compiler for the device, where this machine's does not fit; it compiles the
    code that prices stages there."""

    def __post_init__(self) -> None:
        for name in ("rpc_tracker", "rpc_key", "cross_compiler"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                raise OptionError(f"{name} is {value!r}; give a string")
        if (self.rpc_tracker, self.rpc_key) != (None, None) and not (
            self.rpc_tracker and self.rpc_key
        ):
            raise OptionError(
                f"rpc_tracker is {self.rpc_tracker!r} and rpc_key {self.rpc_key!r}; give both, the "
                "tracker's HOST:PORT and the key that its devices were registered under"
            )

    @property
    def is_remote(self) -> bool:
        """True if a device of a tracker is asked for."""
        return self.rpc_tracker is not None

    def cores_for(self, threads: int | None, *, gpu: bool) -> int:
        """Cores of this machine that a candidate keeps busy; ``threads`` None is one thread."""
        return 1 if gpu or self.is_remote else threads or 1
