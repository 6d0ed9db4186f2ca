"""Cells of the experiment device specialization and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.measure.comparison import Comparison

__all__ = ["CpuDevice", "Transferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuDevice:
    """Part of this CPU that counts as a device."""

    lanes: int
    onednn: bool
    """Whether oneDNN computes what it computes faster."""

    @property
    def name(self) -> str:
        """Lanes and kernels."""
        kernels = "oneDNN" if self.onednn else "TVM"
        return f"{kernels}, {self.lanes} lane{'s' if self.lanes > 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """Latencies on one device, by the device that a schedule was found for."""

    found_for: tuple[str, ...]
    ms: tuple[float, ...]
    race: Comparison | None
    """Race with all rounds; None where nothing was measured."""
