"""The front door: ``tune`` takes a model all the way to a measured schedule that runs.

Prepare and build, search with measured prices, then race the winner against sequential order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
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
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.targets import lanes_for_target, local_device, require_cudnn
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
from tvm_ios.scheduling import (
    baseline_schedules,
    choose,
    measured_search_options,
    race,
    require_time_budget,
    resumable,
    search_schedule,
    settle_splits,
)
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.stage_kernels import RelayStageRunner
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
        Seconds of search, once the operators are priced, after which the best schedule found so
        far is taken.
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
    require_time_budget(time_budget)
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
    if tuning is not None and mixed_precision and not device.traits.tunes_float16:
        raise OptionError(
            "mixed_precision=True goes with TVM's own GPU kernels or with cudnn=True: its tuners "
            "cannot compile float16 kernels with CUDA 12.8 or newer; leave out tuning"
        )
    if offload is not None:
        load_cudnn()  # a missing library is told before the work, not after
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
        pad=pad_channels and device.traits.pads_channels and not conversion.changes,
        compare_options=compare_options,
        device=device,
    )
    built = chosen.built
    with ExitStack() as stack:
        tuned = None
        if request is not None:
            tuned = stack.enter_context(
                tuned_kernels(
                    built,
                    chosen.mod,
                    chosen.params,
                    request,
                    clock,
                    lanes=chosen_lanes,
                    compare_options=compare_options,
                    device=device,
                )
            )
            built = tuned.built
        built = replace(built, offload=offload)
        session = stack.enter_context(device.open())
        with (
            RelayStageRunner(built, lanes=chosen_lanes, session=session, database=opened) as runner,
            clock.phase("search"),
        ):
            prices = KernelPrices(runner, database=opened, options=measure)
            with resumable(prices):
                settle_splits(prices)
                found = search_schedule(prices, options, clock, time_budget=time_budget)
            schedules = baseline_schedules(prices)
            schedules[Contestant.IOS] = prices.annotate(found.schedule)
        with clock.phase("compare"):
            models = _distinct(built, schedules, lanes=chosen_lanes)
            if offload is not None:
                cudnn_there = session.cudnn(opened)
                models = {
                    who: replace(model, plan=cudnn_there.complete(model.plan))
                    for who, model in models.items()
                }
            comparison = race(
                {who.value: models[who] for who in models}, options=compare_options, session=session
            )
            kept, reason = choose(comparison, {who: who.value for who in models})
    records = records_around(built.kernels.staged) if tuned is None else tuned.records
    model = replace(models[kept], records=records)
    report = TuneReport.of(
        kept=kept,
        reason=reason,
        model=model,
        coverage=built.extraction.coverage.as_text(),
        counters=prices.counters,
        search=found,
        comparison=comparison,
        phase_s=clock.phase_s,
        tuning="" if tuned is None or tuned.outcome is None else tuned.outcome.as_text(),
        notes=(
            *built.prepared.notes,
            *((f"the model was converted: {conversion.as_text()}",) if conversion.changes else ()),
            *device.notes,
            *chosen.notes,
            *(() if tuned is None else tuned.notes),
            *found.notes,
            *prices.notes,
            *comparison.notes,
        ),
    )
    return replace(model, tune_report=report)


def _measuring_device(
    target: Any, options: TuningOptions | None, rpc_tracker: str | None, rpc_key: str | None
) -> MeasuringDevice:
    """Where prices are taken."""
    resolved = None if target is None else resolve_target(target)
    here = LocalCpu() if resolved is None else local_device(resolved)
    tracker = rpc_tracker or (options or TuningOptions()).rpc_tracker
    if tracker is not None and resolved is not None and is_gpu_target(resolved):
        raise OptionError(
            f"target is {target!r} and rpc_tracker {tracker!r}, but GPUs are measured on the "
            "machine they are in; run tune there, without rpc_tracker"
        )
    return requested_device(options, rpc_tracker, rpc_key, here=here)


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
    chosen_lanes = lanes_for_target(lanes, resolved)
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


def _distinct(
    built: BuiltModel, schedules: Mapping[Contestant, InterOpSchedule], *, lanes: int
) -> dict[Contestant, CompiledModel]:
    """The schedules, lowered; one that equals sequential order need not race against it."""
    in_order = schedules[Contestant.SEQUENTIAL].stages
    return {
        who: lower_schedule(built, schedule, lanes=lanes)
        for who, schedule in schedules.items()
        if who is Contestant.SEQUENTIAL or schedule.stages != in_order
    }
