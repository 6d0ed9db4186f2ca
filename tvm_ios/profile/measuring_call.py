"""The call that something is measured for: device, lanes, database, and time."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import tvm

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.cost.database import ProfileDatabase, open_database
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.machine_mode import ModeWatch
from tvm_ios.measure.patience import Patience
from tvm_ios.measure.quiet_wait import wait_until_quiet
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.runtime.libraries.placed_calls import library_calls
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.progress import PhaseClock, ProgressListener
from tvm_ios.support.stage_gate import GrantedStage, OpenGate, StageGate, StageNeed
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["MeasuringCall", "profile_context"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringCall:
    """Facts and tools that all steps of one call share: building, tuning, search, races."""

    lanes: int
    """Number of lanes that run the network; on a GPU, of streams."""
    device: MeasuringDevice
    database: ProfileDatabase
    """Database of prices and of choices made by them."""
    clock: PhaseClock = field(default_factory=PhaseClock)
    """Clock that gets every phase."""
    gate: StageGate = field(default_factory=OpenGate)
    """Gate that stages of a job pass."""
    budget: TimeBudget = field(default_factory=TimeBudget)
    """Time budget of the whole call."""
    compare: CompareOptions = field(default_factory=CompareOptions)
    """Options of races between whole networks."""
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    """Options of the measurements that price stages."""
    patience: Patience = field(default_factory=Patience)
    """Patience of all the call's measurements together, known once the first session is open."""
    answers: EarlyAnswers = field(default_factory=EarlyAnswers)
    """Models that the call has so far."""

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
        """Call on this machine's processor, which begins now; arguments are those of ``tune``."""
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
        """Needs of a step that prepares or compiles."""
        return StageNeed.to_prepare(self.gate.most_cores, task)

    @property
    def to_profile(self) -> StageNeed:
        """Needs of a step that measures."""
        return StageNeed.to_profile(self.device.cores_for(self.lanes))

    @contextmanager
    def stage(self, name: str, need: StageNeed) -> Iterator[GrantedStage]:
        """Context of a phase that is a stage of a job, named after the phase where it has no task.

        It begins when the gate lets it, and waiting does not count.
        """
        with (
            self.gate.stage(replace(need, task=need.task or name)) as granted,
            self.clock.phase(name),
        ):
            yield granted

    def at(self, granted: GrantedStage) -> Self:
        """The call on the device that a stage was granted, equal but for its place."""
        return replace(self, device=self.device.at(granted.address))

    def open(self) -> MeasuringSession:
        """Session on the device.

        It waits for a fast machine no longer than the call's other sessions have left. The first
        one begins once the machine is quiet, if the call is to wait for that.
        """
        session = self.device.open()
        session.patience = self.patience
        if self.patience.total_s == math.inf:  # nothing was measured yet
            modes = (self.measure.mode, self.compare.mode)
            self.patience.total_s = max(mode.patience_s for mode in modes)
            if self.measure.wait_quiet_s:
                self._wait_until_quiet(session)
        return session

    def _wait_until_quiet(self, session: MeasuringSession) -> None:
        most_s = min(self.measure.wait_quiet_s, self.budget.left_s / 2)
        mode = replace(self.measure.mode, patience_s=0.0)
        told = False

        def tell(left_s: float) -> None:
            nonlocal told
            if not told:
                _LOG.warning(
                    "waiting for a quiet machine: %s; %.0f s at most", watch.told(), left_s
                )
            told = True
            self.clock.say(f"{watch.told()}, {left_s:.0f} s left")

        with (
            self.clock.phase("wait for a quiet machine"),
            closing(session.stage_runner(self.lanes)) as runner,
        ):
            watch = ModeWatch(runner.ping_pong_ns, mode, waited_ns=runner.waited_ns)
            found = wait_until_quiet(watch, most_s, tell)
        if not found.quiet:
            _LOG.warning("the machine is not quiet after %.0f s; measuring goes on", found.seconds)
        elif told:
            _LOG.warning("the machine is quiet after %.0f s", found.seconds)

    def library_ns(
        self, functions: Sequence[FusedFunction | None], libraries: Iterable[OperatorLibrary]
    ) -> list[int | None]:
        """Nanoseconds of the fastest library's call for each function; None where there is none."""
        found: list[int | None] = [None] * len(functions)
        with self.open() as session:
            for library in libraries:
                opened = session.libraries(self.database).open(library)
                able = {n: each for n, each in enumerate(library_calls(functions, library)) if each}
                complete = opened.complete(each.descriptor for each in able.values())
                for index, each in able.items():
                    made = complete[each.descriptor]
                    time_ns = None if made is None else opened.found_ns(made)
                    if time_ns is not None:
                        found[index] = min(time_ns, found[index] or time_ns)
        return found

    def context(self, target: tvm.target.Target) -> ProfileContext:
        """Conditions of prices besides the stages, with the records in force."""
        return profile_context(target, self.lanes, self.device)

    def choices(self, target: tvm.target.Target) -> KnownChoices:
        """Choices between builds that were made with the records in force."""
        return KnownChoices(self.database, self.context(target))


def profile_context(
    target: tvm.target.Target, lanes: int, device: MeasuringDevice
) -> ProfileContext:
    """Conditions of all prices of one search, besides the stages."""
    dialect = dialect_here()
    return ProfileContext(
        device=device.name,
        lanes=lanes,
        tvm_version=" ".join(dialect.compilers(target)),
        kernels=f"{target} {dialect.records_digest()}".rstrip(),
        executor=device.executor_digest,
    )
