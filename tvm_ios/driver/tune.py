"""``tune`` takes a model all the way to a measured schedule that runs.

Prepare and build, search with measured prices, then race the winner against sequential order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.model import BuiltModel, CompiledModel, lower_schedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.devices.targets import local_device, require_cudnn, require_onednn
from tvm_ios.driver.options import DEFAULTS, TuneOptions, require_options
from tvm_ios.errors import OptionError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import LEAST_ROUNDS
from tvm_ios.profile.build_choice import build_padded_or_not
from tvm_ios.profile.find_schedules import FoundSchedules, find_schedules
from tvm_ios.profile.prices import KernelPrices, open_database
from tvm_ios.profile.race import choose, race, race_s
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import converted_model
from tvm_ios.report.tune_report import Contestant, TuneReport
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.progress import PhaseClock, ProgressListener
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.records.record_lookup import records_around
from tvm_ios.tuning.remote import requested_device
from tvm_ios.tuning.tuned_kernels import TuningRequest, tuned_kernels

__all__ = ["tune"]


def tune(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    tuning: str | None = None,
    tuning_records: str | Path | Sequence[str | Path] | None = None,
    time_budget: float | None = None,
    lanes: int | None = None,
    database: ProfileDatabase | str | Path | None = None,
    progress: ProgressListener | None = None,
    options: TuneOptions = DEFAULTS,
) -> CompiledModel:
    """Find and compile the fastest inter-operator schedule of a model on this machine.

    AutoTVM and auto_scheduler ``ApplyHistoryBest`` contexts around the call are honoured, and so is
    a ``PassContext``. The IOS schedule is timed against the greedy and the sequential one; what
    does not beat sequential order beyond the noise is not returned.

    Parameters
    ----------
    mod
        A Relay module with a ``main`` of static shapes.
    params
        Parameters by name.
    target
        A CPU target, such as ``"llvm -mcpu=skylake-avx512"``, or ``"cuda"`` for the first GPU of
        this machine; the best for the processor where omitted.
    tuning
        ``"autotvm"`` or ``"auto_scheduler"`` tunes the kernels first; None does not.
    tuning_records
        A log of either, or several: what they hold is used, and the first one gets what is
        measured. Where omitted, a log in the cache folder. Stock TVM reads and writes the same.
    time_budget
        Seconds of the whole call. Preparing, compiling and pricing single operators are done in
        any case; tuning of kernels, padded channels, the search and the races take what is left,
        and the report says what was cut.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted, those of
        the device of an RPC tracker. On a GPU, streams; 8 where omitted.
    database
        A profile database or its file; where omitted, ``profiles.sqlite`` in the cache folder.
    progress
        Called with a :class:`~tvm_ios.support.progress.Progress` now and then.
    options
        All else: :class:`~tvm_ios.driver.options.TuneOptions` has a field for the search, for each
        kind of measuring, for layout and types, for cuDNN, oneDNN and padded channels, for the
        tuners and for a remote device.

    Raises
    ------
    TuningError, RecordError
        If a tuner, a tracker or a log of tuning records is missing or unfit.
    CostError
        If a stage cannot be priced, or the device of an RPC tracker is lost. Prices so far are
        kept, and the same call goes on from there.
    ModelError
        If the model cannot be prepared or compiled, or nothing of it can be scheduled.
    OptionError
        If an option has a value nobody can honour.
    HostError
        If the target is a GPU and there is no driver, no GPU, or one that does not run its code; or
        no cuDNN or oneDNN where it is asked for.
    DatabaseError
        If the profile database cannot be read.
    KeyboardInterrupt
        On Ctrl-C. Prices taken so far lie in the database, so the same call goes on from there;
        if there are any, a note on the exception says so.

    Examples
    --------
    >>> import tvm_ios
    >>> from tvm_ios.models import squeezenet
    >>> mod, params = squeezenet(image_size=64)
    >>> compiled = tvm_ios.tune(mod, params)  # doctest: +SKIP
    >>> print(compiled.report().as_text())  # doctest: +SKIP
    """
    require_options(options)
    conversion, build = options.conversion, options.build
    budget = TimeBudget(time_budget)
    request = TuningRequest.of(
        tuning,
        tuning_records,
        options=options.kernels,
        device=options.device,
        pad_merged_kernels=options.search.pad_merged_kernels,
    )
    resolved = None if target is None else resolve_target(target)
    libraries = (
        *require_cudnn(build.cudnn, build.tf32, resolved),
        *require_onednn(build.onednn, resolved, remote=options.device.is_remote),
    )
    device = _measuring_device(target, options.device)
    if tuning is not None and conversion.mixed_precision and not device.traits.tunes_float16:
        raise OptionError(
            "mixed_precision=True goes with TVM's own GPU kernels or with cudnn=True: its tuners "
            "cannot compile float16 kernels with CUDA 12.8 or newer; leave out tuning"
        )
    for library in libraries:
        library.require()  # a missing one is told before the work, not after
    chosen_lanes = device.require_lanes(lanes)
    opened = open_database(database)
    clock = PhaseClock(progress)
    if target is None:
        target = device.target
    mod, params = converted_model(mod, params, target, conversion)
    chosen = build_padded_or_not(
        mod,
        params,
        target,
        clock,
        lanes=chosen_lanes,
        pad=build.pad_channels and device.traits.pads_channels and not conversion.changes,
        compare_options=options.compare,
        budget=budget,
        database=opened,
        device=device,
    )
    step = _Step(
        lanes=chosen_lanes,
        database=opened,
        options=options,
        device=device,
        clock=clock,
        budget=budget,
    )
    tuned = None
    with ExitStack() as stack:
        if request is None:
            session = stack.enter_context(device.open())
            main = step.schedule(replace(chosen.built, libraries=libraries), session)
        else:
            # The records are in force inside, and must not be for the untuned kernels below.
            with tuned_kernels(
                chosen.built,
                chosen.mod,
                chosen.params,
                request,
                clock,
                lanes=chosen_lanes,
                compare_options=options.compare,
                budget=budget,
                database=opened,
                device=device,
            ) as tuned:
                # Not before: tuners wait for a device that is held.
                session = stack.enter_context(device.open())
                main = step.schedule(replace(tuned.built, libraries=libraries), session)
        models = dict(main.models)
        if tuned is not None and tuned.layout is not None:
            models |= step.untuned(replace(chosen.built, libraries=libraries), main, session)
        with clock.phase("compare"):
            comparison = race(
                {who.value: model for who, model in models.items()},
                options=step.race_options(main.found.sequential_ns, len(models)),
                until_decided=True,
                session=session,
            )
            kept, reason = choose(comparison, {who: who.value for who in models})
    if tuned is None:
        records = records_around(main.built.kernels.staged)
    else:
        records = tuned.records.not_used() if kept in UNTUNED.values() else tuned.records
    model = replace(models[kept], records=records)
    report = TuneReport.of(
        kept=kept,
        reason=reason,
        model=model,
        coverage=main.built.extraction.coverage.as_text(),
        counters=main.prices.counters,
        search=main.found.searches[Contestant.IOS.value],
        comparison=comparison,
        phase_s=clock.phase_s,
        tuning="" if tuned is None or tuned.outcome is None else tuned.outcome.as_text(),
        notes=(
            *main.built.prepared.notes,
            *((f"the model was converted: {conversion.as_text()}",) if conversion.changes else ()),
            *device.notes,
            *chosen.notes,
            *(() if tuned is None else tuned.notes),
            *main.found.notes,
            *main.prices.notes,
            *comparison.notes,
            *budget.notes,
        ),
    )
    return replace(model, tune_report=report)


UNTUNED = {
    Contestant.GREEDY: Contestant.UNTUNED_GREEDY,
    Contestant.IOS: Contestant.UNTUNED_IOS,
}
"""What schedules are called whose kernels are not the tuned ones that most others run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheduled:
    """A build with its schedules found, and compiled for the race."""

    built: BuiltModel
    prices: KernelPrices
    found: FoundSchedules
    models: Mapping[Contestant, CompiledModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """How builds are scheduled within one call of ``tune``."""

    lanes: int
    database: ProfileDatabase
    options: TuneOptions
    device: MeasuringDevice
    clock: PhaseClock
    budget: TimeBudget

    def schedule(self, built: BuiltModel, session: MeasuringSession) -> _Scheduled:
        """Price a build, search its schedules, and compile them, under the records in force."""
        with (
            RelayStageRunner(
                built, lanes=self.lanes, session=session, database=self.database
            ) as runner,
            self.clock.phase("search"),
        ):
            prices = KernelPrices(runner, database=self.database, options=self.options.measure)
            limits = {Contestant.IOS.value: self.options.search}
            found = find_schedules(prices, limits, self.clock, budget=self.budget)
        with self.clock.phase("lower"):
            models = {
                Contestant(name): lower_schedule(built, schedule, lanes=self.lanes)
                for name, schedule in found.without_repetitions().items()
            }
            opened = session.libraries(self.database)
            models = {
                who: replace(model, plan=opened.complete(model.plan))
                for who, model in models.items()
            }
        return _Scheduled(built=built, prices=prices, found=found, models=models)

    def untuned(
        self, built: BuiltModel, tuned: _Scheduled, session: MeasuringSession
    ) -> dict[Contestant, CompiledModel]:
        """What has to be beaten besides sequential order: the best schedules of untuned kernels.

        Their sequential order lost to that of the tuned kernels before.
        """
        needed_s = 2 * race_s(tuned.found.sequential_ns, self.options.compare)
        if not self.budget.allows(needed_s):
            self.budget.cut("schedules of untuned kernels were not found, and so not compared")
            return {}
        models = self.schedule(built, session).models
        return {UNTUNED[who]: model for who, model in models.items() if who in UNTUNED}

    def race_options(self, sequential_ns: int, contestants: int) -> CompareOptions:
        """Options of a race with as many rounds as there is time for."""
        compare = self.options.compare
        whole_s = race_s(sequential_ns, compare) * contestants / 4
        if self.budget.allows(whole_s):
            return compare
        share = max(0.0, self.budget.left_s) / whole_s
        rounds = max(LEAST_ROUNDS, int(share * compare.rounds))
        if rounds < compare.rounds:
            self.budget.cut(f"the last race had {rounds} rounds of {compare.rounds}")
        return replace(compare, rounds=min(rounds, compare.rounds))


def _measuring_device(target: Any, options: DeviceOptions) -> MeasuringDevice:
    """Where prices are taken."""
    resolved = None if target is None else resolve_target(target)
    here = LocalCpu() if resolved is None else local_device(resolved)
    tracker = options.rpc_tracker
    if tracker is not None and resolved is not None and is_gpu_target(resolved):
        raise OptionError(
            f"target is {target!r} and rpc_tracker {tracker!r}, but GPUs are measured on the "
            "machine they are in; run tune there, without rpc_tracker"
        )
    return requested_device(options, here=here)
