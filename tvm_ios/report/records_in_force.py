"""Kernels of a network that have a tuning record in force, and why the others have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

__all__ = ["FolderFormat", "KernelRecord", "MissingReason", "RecordFormat", "RecordsInForce"]


class RecordFormat(StrEnum):
    """Tuner of Relay that a record is of, which writes logs."""

    AUTOTVM = "autotvm"
    AUTO_SCHEDULER = "auto_scheduler"


class FolderFormat(StrEnum):
    """Tuner of Relax that a record is of, which writes folders."""

    META_SCHEDULE = "meta_schedule"


MOST_NAMES = 3
"""Number of kernels that the one line names; all others are in :attr:`RecordsInForce.missing`."""
_NAMES: Mapping[RecordFormat | FolderFormat, str] = {
    RecordFormat.AUTOTVM: "AutoTVM",
    RecordFormat.AUTO_SCHEDULER: "auto_scheduler",
    FolderFormat.META_SCHEDULE: "MetaSchedule",
}


class MissingReason(Enum):
    """Reason why a kernel keeps TVM's default schedule; the values are for people."""

    NO_RECORD = "no record"
    OTHER_LAYOUT = "record for another layout"
    """Record with as many numbers in each tensor, but channels laid out or blocked in another
    way."""
    OTHER_TARGET = "record for another target"
    """Record for another target; TVM applies it to targets that share a key, such as ``cpu``."""
    FAILED = "failed candidates only"
    SLOWER = "record slower than TVM's own kernel"
    NOT_FASTER = "record does not make the network faster"
    """Build with the records lost against the build without them."""
    SWITCHED_OFF = (
        'auto_scheduler is off, give PassContext(config={"relay.backend.use_auto_scheduler": True})'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """A tunable kernel, with the record it is compiled with."""

    operators: tuple[str, ...]
    """Names of the operators of the graph that run the kernel."""
    shapes: str
    """Shapes of the first two tensors that it reads: ``1x16x8x8 * 16x16x3x3``."""
    found: RecordFormat | FolderFormat | MissingReason
    """Tuner whose record is in force, or the reason why there is none."""

    @property
    def applied(self) -> bool:
        """True if a record is in force."""
        return not isinstance(self.found, MissingReason)

    def as_record(self) -> dict[str, Any]:
        """Fields as JSON has them; record or reason by name."""
        return {
            "operators": list(self.operators),
            "shapes": self.shapes,
            "applied": self.applied,
            "found": self.found.name.lower(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsInForce:
    """Tunable kernels of one build, under the contexts around it and the logs given to it.

    A kernel is a fused function; it is tunable where it has a template of AutoTVM or, while
    auto_scheduler is on, a reduction; in Relax, where it computes with numbers. ``tune`` counts
    kernels before its schedule merges any, ``compile_schedule`` those that it compiles.
    """

    contexts: tuple[RecordFormat | FolderFormat, ...]
    """Tuners whose dispatch contexts were around the call."""
    logs: tuple[Path, ...]
    """Logs given as ``tuning_records``, or written by tuning."""
    kernels: tuple[KernelRecord, ...]
    """Tunable kernels in the order of their first operators."""

    @property
    def applied(self) -> tuple[KernelRecord, ...]:
        """Kernels with a record in force."""
        return tuple(kernel for kernel in self.kernels if kernel.applied)

    @property
    def missing(self) -> tuple[KernelRecord, ...]:
        """Kernels that keep TVM's default schedule."""
        return tuple(kernel for kernel in self.kernels if not kernel.applied)

    def not_used(self) -> RecordsInForce:
        """Records where the build lost, so that no kernel with a record is used."""
        return replace(
            self,
            kernels=tuple(
                replace(kernel, found=MissingReason.NOT_FASTER) if kernel.applied else kernel
                for kernel in self.kernels
            ),
        )

    def as_text(self) -> str:
        """Line of text: number of kernels, tuners, and the first few kernels without a record."""
        named = [f"context {_NAMES[each]}" for each in self.contexts]
        sources = ", ".join([*named, *(f"log {log.name}" for log in self.logs)])
        if not self.kernels:
            return f"records in force: none, no kernel is tunable ({sources})"
        line = f"records in force: {len(self.applied)} of {len(self.kernels)} kernels ({sources})"
        if not self.missing:
            return line
        more = len(self.missing) - MOST_NAMES
        rest = f"; and {more} more" if more > 0 else ""
        return f"{line}; {len(self.missing)} without: {'; '.join(self._named())}{rest}"

    def as_record(self) -> dict[str, Any]:
        """Fields as JSON has them."""
        return {
            "contexts": [each.value for each in self.contexts],
            "logs": list(map(str, self.logs)),
            "kernels": [kernel.as_record() for kernel in self.kernels],
        }

    def _named(self) -> Iterator[str]:
        """Kernels by reason, such as ``conv2d_0 1x16x8x8 * 16x16x1x1: no record``."""
        shown = self.missing[:MOST_NAMES]
        for reason in dict.fromkeys(kernel.found for kernel in shown):
            alike = (kernel for kernel in shown if kernel.found is reason)
            names = ", ".join(f"{kernel.operators[0]} {kernel.shapes}" for kernel in alike)
            yield f"{names}: {reason.value}"
