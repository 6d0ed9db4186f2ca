"""The call that something is measured for: where, on how many lanes, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import tvm

from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import Patience
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.profile.prices import open_database, profile_context
from tvm_ios.support.progress import PhaseClock, ProgressListener
from tvm_ios.support.stage_gate import StageNeed
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["MeasuringCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringCall:
    """What all steps of one call have in common that build, tune, search and race."""

    lanes: int
    """Lanes that run the network; on a GPU, streams."""
    device: MeasuringDevice
    database: ProfileDatabase
    """Where prices, and what was chosen by them, are kept."""
    clock: PhaseClock = field(default_factory=PhaseClock)
    """Told of every phase."""
    budget: TimeBudget = field(default_factory=TimeBudget)
    """Of the whole call."""
    compare: CompareOptions = field(default_factory=CompareOptions)
    """How whole networks are timed against each other."""
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    """How stages are priced."""
    patience: Patience = field(default_factory=Patience)
    """What its measurements have spent on a slow machine."""

    @classmethod
    def here(
        cls,
        *,
        lanes: int,
        database: ProfileDatabase | str | Path | None = None,
        time_budget: float | None = None,
        progress: ProgressListener | None = None,
        compare: CompareOptions | None = None,
    ) -> Self:
        """A call on this machine's processor, which begins now; arguments are those of ``tune``."""
        device = LocalCpu()
        return cls(
            lanes=device.require_lanes(lanes),
            device=device,
            database=open_database(database),
            clock=PhaseClock(progress),
            budget=TimeBudget(time_budget),
            compare=compare or CompareOptions(),
        )

    def to_prepare(self, task: str = "") -> StageNeed:
        """What a step needs that prepares or compiles."""
        return StageNeed.to_prepare(self.clock.gate.most_cores, task)

    @property
    def to_profile(self) -> StageNeed:
        """What a step needs that measures."""
        return StageNeed.to_profile(self.device.cores_for(self.lanes))

    def open(self) -> MeasuringSession:
        """A session on the device, or on the one alike that the present stage was granted.

        It waits no longer for a fast machine than the call's other sessions have left.
        """
        session = self.device.at(self.clock.address).open()
        session.patience = self.patience
        return session

    def context(self, target: tvm.target.Target) -> ProfileContext:
        """What prices depend on besides the stages, under the records in force."""
        return profile_context(target, self.lanes, self.device)

    def choices(self, target: tvm.target.Target) -> KnownChoices:
        """Choices between builds that were made under the records in force, as prices are kept."""
        return KnownChoices(self.database, self.context(target))
