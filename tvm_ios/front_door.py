"""The front door: ``tune`` takes a model all the way to a measured schedule that runs.

Prepare and build, search with measured prices, then race the winner against sequential order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.build_choice import build_for_schedule, build_padded_or_not
from tvm_ios.compiled import (
    BuiltModel,
    CompiledModel,
    lower_partitioned,
    lower_schedule,
    widest_stage,
)
from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import InterOpSchedule, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.cost.compare import CompareOptions
from tvm_ios.cost.comparison import LEAST_ROUNDS
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.host import host_target
from tvm_ios.pricing import KernelPrices, open_database
from tvm_ios.progress import PhaseClock, ProgressListener
from tvm_ios.relay import is_partitioned
from tvm_ios.relay.conversion import Conversion
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import converted_model
from tvm_ios.runtime.cudnn_library import load_cudnn
from tvm_ios.runtime.device import is_gpu_target
from tvm_ios.runtime.gpu_session import GpuDevice, GpuSession
from tvm_ios.runtime.measuring import MeasuringDevice, MeasuringSession, session_on
from tvm_ios.runtime.remote_device import RemoteDevice
from tvm_ios.scheduling import (
    FoundSchedules,
    choose,
    find_schedules,
    measured_search_options,
    race,
    race_s,
)
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.stage_kernels import RelayStageRunner
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.targets import (
    gpu_of,
    require_cudnn,
    require_lanes,
    require_streams,
)
from tvm_ios.tune_report import Contestant, TuneReport
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.record_lookup import records_around
from tvm_ios.tuning.remote import requested_device
from tvm_ios.tuning.session import TuningRequest, tuned_kernels

__all__ = ["compile_schedule", "tune"]


def tune(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    max_group_size: int = 3,
    max_num_groups: int = 8,
    strategies: Iterable[Strategy | str] | Strategy | str = tuple(Strategy),
    endings: EndingRule | str = EndingRule.COMPLETE,
    pad_merged_kernels: bool = True,
    lanes: int | None = None,
    time_budget: float | None = None,
    database: ProfileDatabase | str | Path | None = None,
    measure: MeasureOptions | None = None,
    compare_options: CompareOptions | None = None,
    progress: ProgressListener | None = None,
    pad_channels: bool = True,
    cudnn: bool = False,
    tf32: bool = False,
    desired_layout: str | None = None,
    mixed_precision: bool = False,
    mixed_precision_acc_type: str = "float32",
    tuning: str | None = None,
    tuning_records: str | Path | Sequence[str | Path] | None = None,
    trials: int | None = None,
    early_stopping: int | None = None,
    rpc_tracker: str | None = None,
    rpc_key: str | None = None,
    tuning_options: TuningOptions | None = None,
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
    max_group_size
        Most units in a group of a concurrent stage, the paper's r; 0 means no limit. A unit is an
        operator, or up to three that follow each other with no way round.
    max_num_groups
        Most groups in a concurrent stage, the paper's s; 0 means no limit.
    strategies
        Kinds of stages to try: ``"concurrent"``, ``"merge"``, or both.
    endings
        Which concurrent stages exist: ``"complete"``, the definition, or ``"published"``.
    pad_merged_kernels
        Whether convolutions of different kernel sizes may merge. The smaller kernels are padded
        with zeros, which make NaN of an inf or NaN of the input where the convolution alone does
        not look at it; the report says where that was done.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted, those of
        the device with an ``rpc_tracker``. On a GPU, streams; 8 where omitted.
    time_budget
        Seconds of the whole call. Preparing, compiling and pricing single operators are done in
        any case; tuning of kernels, padded channels, the search and the races take what is left,
        and the report says what was cut.
    database
        A profile database or its file; where omitted, ``profiles.sqlite`` in the cache folder.
    measure
        How stages are timed.
    compare_options
        How the final race is timed.
    progress
        Called with a :class:`~tvm_ios.progress.Progress` now and then.
    pad_channels
        Whether to try convolutions with output channels padded to whole vectors, where they fill
        none, and to keep them if the network is faster. Sums are then taken in another order, and
        an inf or NaN in a padded convolution's input spreads as NaN. Not done on a GPU.
    cudnn
        On a GPU, whether cuDNN may compute convolutions, with bias and ReLU. Each is priced with
        TVM's kernel and by cuDNN, and the faster one is kept; a stage may have both.
    tf32
        Whether cuDNN may round float32 to TF32, with 10 bits of mantissa, which is faster.
    desired_layout
        Layout of convolutions, ``"NCHW"`` or ``"NHWC"``, and of all between them; None leaves it.
        Inputs and outputs keep theirs.
    mixed_precision
        Whether convolutions and products are computed in float16, and what is safe with it. Inputs
        and outputs keep their types.
    mixed_precision_acc_type
        What they sum up in: ``"float32"`` or ``"float16"``.
    tuning
        ``"autotvm"`` or ``"auto_scheduler"`` tunes the kernels first; None does not.
    tuning_records
        A log of either, or several: what they hold is used, and the first one gets what is
        measured. Where omitted, a log in the cache folder. Stock TVM reads and writes the same.
    trials, early_stopping
        As in :class:`~tvm_ios.tuning.options.TuningOptions`, which has more.
    rpc_tracker, rpc_key
        ``HOST:PORT`` of TVM's RPC tracker, and the key of a device of it, whose server is a stock
        ``python -m tvm.exec.rpc_server``. Kernels are tuned, stages priced and schedules raced
        there, with or without ``tuning``; what comes out is for that device.
    tuning_options
        All options of tuning.

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
        If the target is a GPU and there is no driver, no GPU, one that does not run its code, or no
        cuDNN where it is asked for.
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
    options = measured_search_options(
        strategies=strategies,
        max_group_size=max_group_size,
        max_num_groups=max_num_groups,
        endings=endings,
        pad_merged_kernels=pad_merged_kernels,
    )
    budget = TimeBudget(time_budget)
    request = TuningRequest.of(
        tuning,
        tuning_records,
        tuning_options,
        pad_merged_kernels=pad_merged_kernels,
        trials=trials,
        early_stopping=early_stopping,
        rpc_tracker=rpc_tracker,
        rpc_key=rpc_key,
    )
    offload = require_cudnn(cudnn, tf32, None if target is None else resolve_target(target))
    conversion = Conversion(
        desired_layout=desired_layout,
        mixed_precision=mixed_precision,
        mixed_precision_acc_type=mixed_precision_acc_type,
    )
    device = _measuring_device(target, tuning_options, rpc_tracker, rpc_key)
    if tuning is not None and mixed_precision and isinstance(device, GpuDevice):
        raise OptionError(
            "mixed_precision=True goes with TVM's own GPU kernels or with cudnn=True: its tuners "
            "cannot compile float16 kernels with CUDA 12.8 or newer; leave out tuning"
        )
    if offload is not None:
        load_cudnn()  # a missing library is told before the work, not after
    chosen_lanes = require_lanes(lanes, device)
    opened = open_database(database)
    clock = PhaseClock(progress)
    if target is None:
        target = device.target if isinstance(device, RemoteDevice) else host_target()
    mod, params = converted_model(mod, params, target, conversion)
    chosen = build_padded_or_not(
        mod,
        params,
        target,
        clock,
        lanes=chosen_lanes,
        pad=pad_channels and not isinstance(device, GpuDevice) and not conversion.changes,
        compare_options=compare_options,
        budget=budget,
        database=opened,
        device=device,
    )
    step = _Step(
        lanes=chosen_lanes,
        database=opened,
        options=options,
        measure=measure,
        compare=compare_options or CompareOptions(),
        device=device,
        clock=clock,
        budget=budget,
    )
    tuned = None
    with ExitStack() as stack:
        session = stack.enter_context(session_on(device))
        if request is None:
            main = step.schedule(replace(chosen.built, offload=offload), session)
        else:
            # The records are in force inside, and must not be for the untuned kernels below.
            with tuned_kernels(
                chosen.built,
                chosen.mod,
                chosen.params,
                request,
                clock,
                lanes=chosen_lanes,
                compare_options=compare_options,
                budget=budget,
                database=opened,
                device=device,
            ) as tuned:
                main = step.schedule(replace(tuned.built, offload=offload), session)
        models = dict(main.models)
        if tuned is not None and tuned.layout is not None:
            models |= step.untuned(replace(chosen.built, offload=offload), main, session)
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
            *(() if device is None else (f"priced and raced on {device.as_text()}",)),
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
    options: SearchOptions
    measure: MeasureOptions | None
    compare: CompareOptions
    device: MeasuringDevice | None
    clock: PhaseClock
    budget: TimeBudget

    def schedule(self, built: BuiltModel, session: MeasuringSession | None) -> _Scheduled:
        """Price a build, search its schedules, and compile them, under the records in force."""
        with (
            RelayStageRunner(
                built, lanes=self.lanes, session=session, database=self.database
            ) as runner,
            self.clock.phase("search"),
        ):
            prices = KernelPrices(runner, database=self.database, options=self.measure)
            limits = {Contestant.IOS.value: self.options}
            found = find_schedules(prices, limits, self.clock, budget=self.budget)
        with self.clock.phase("lower"):
            models = {
                Contestant(name): lower_schedule(built, schedule, lanes=self.lanes)
                for name, schedule in found.without_repetitions().items()
            }
            if built.offload is not None and isinstance(session, GpuSession):
                cudnn = session.cudnn(self.database)
                models = {
                    who: replace(model, plan=cudnn.complete(model.plan))
                    for who, model in models.items()
                }
        return _Scheduled(built=built, prices=prices, found=found, models=models)

    def untuned(
        self, built: BuiltModel, tuned: _Scheduled, session: MeasuringSession | None
    ) -> dict[Contestant, CompiledModel]:
        """What has to be beaten besides sequential order: the best schedules of untuned kernels.

        Their sequential order lost to that of the tuned kernels before.
        """
        needed_s = 2 * race_s(tuned.found.sequential_ns, self.compare)
        if not self.budget.allows(needed_s):
            self.budget.cut("schedules of untuned kernels were not found, and so not compared")
            return {}
        models = self.schedule(built, session).models
        return {UNTUNED[who]: model for who, model in models.items() if who in UNTUNED}

    def race_options(self, sequential_ns: int, contestants: int) -> CompareOptions:
        """As many rounds as there is time for."""
        whole_s = race_s(sequential_ns, self.compare) * contestants / 4
        if self.budget.allows(whole_s):
            return self.compare
        share = max(0.0, self.budget.left_s) / whole_s
        rounds = max(LEAST_ROUNDS, int(share * self.compare.rounds))
        if rounds < self.compare.rounds:
            self.budget.cut(f"the last race had {rounds} rounds of {self.compare.rounds}")
        return replace(self.compare, rounds=min(rounds, self.compare.rounds))


def _measuring_device(
    target: Any, options: TuningOptions | None, rpc_tracker: str | None, rpc_key: str | None
) -> MeasuringDevice | None:
    """Where prices are taken; None for this machine's CPU."""
    gpu = None if target is None else gpu_of(resolve_target(target))
    tracker = rpc_tracker or (options or TuningOptions()).rpc_tracker
    if gpu is not None and tracker is not None:
        raise OptionError(
            f"target is {target!r} and rpc_tracker {tracker!r}, but GPUs are measured on the "
            "machine they are in; run tune there, without rpc_tracker"
        )
    return gpu or requested_device(options, rpc_tracker, rpc_key)


def compile_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    schedule: InterOpSchedule | None = None,
    lanes: int | None = None,
    cudnn: bool = False,
    tf32: bool = False,
    desired_layout: str | None = None,
    mixed_precision: bool = False,
    mixed_precision_acc_type: str = "float32",
) -> CompiledModel:
    """Compile a model with a schedule that is known: no search, no measuring.

    Parameters
    ----------
    mod
        A Relay module; or one that ``ScheduleOperators`` has partitioned, with no ``schedule``.
    params
        Parameters by name.
    target
        A CPU target, or a GPU such as ``cuda -arch=sm_90``, which needs ``nvcc`` but no GPU; the
        best for this processor where omitted.
    schedule
        What an earlier ``tune`` of the same model found; sequential order where omitted.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted. On a
        GPU, streams: as many as the widest stage has groups where omitted.
    cudnn
        Whether cuDNN computes the convolutions that the schedule says, on a GPU; all that it can
        compute, if the schedule was found without cuDNN. It is needed to run the model, and not to
        compile it.
    tf32
        Whether it may round float32 to TF32, with 10 bits of mantissa.
    desired_layout, mixed_precision, mixed_precision_acc_type
        As for :func:`tune`; a schedule fits the graph that it was found with.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph or breaks a rule.
    ModelError, OptionError
        As :func:`tune`.
    """
    resolved = None if target is None else resolve_target(target)
    offload = require_cudnn(cudnn, tf32, resolved)
    on_gpu = resolved is not None and is_gpu_target(resolved)
    chosen_lanes = require_streams(lanes) if on_gpu else require_lanes(lanes)
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(f"mod is a {type(mod).__name__}; give a Relay module (tvm.IRModule)")
    if not isinstance(schedule, InterOpSchedule | None):
        raise OptionError(
            f"schedule is a {type(schedule).__name__}; give an InterOpSchedule, such as "
            "InterOpSchedule.from_json(text)"
        )
    conversion = Conversion(
        desired_layout=desired_layout,
        mixed_precision=mixed_precision,
        mixed_precision_acc_type=mixed_precision_acc_type,
    )
    if is_partitioned(mod):
        if conversion.changes:
            raise OptionError(
                f"the module is partitioned already, so {conversion.as_text()} comes too late; "
                "give that to PrepareModule"
            )
        if schedule is not None:
            raise OptionError(
                "the module is partitioned already, so it has a schedule; "
                "pass either the original module or no schedule"
            )
        model = lower_partitioned(mod, params, target, lanes=chosen_lanes, offload=offload)
        return replace(model, records=records_around(model.kernels.staged))
    if conversion.changes:
        target = host_target() if target is None else target
        mod, params = converted_model(mod, params, target, conversion)
    built = replace(build_for_schedule(mod, params, target, schedule), offload=offload)
    chosen = schedule if schedule is not None else sequential_schedule(built.graph)
    try:
        verify_schedule(chosen, built.graph)
    except ScheduleError as error:
        if chosen.graph_fingerprint == built.graph.fingerprint():
            raise
        raise ScheduleError(
            f"{error}, or compile with the layout and types it was found with; this is "
            f"{conversion.as_text()}"
        ) from error
    model = lower_schedule(built, chosen, lanes=chosen_lanes or widest_stage(chosen))
    return replace(model, records=records_around(model.kernels.staged))
