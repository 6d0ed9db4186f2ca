"""``tune``: takes a model to a measured schedule that runs.

It prepares and builds, searches with measured prices, then races against sequential order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.parts import parts_named
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.driver.effort import Effort
from tvm_ios.driver.given_inputs import arrays_of, require_inputs
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall, budget_of_call
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.onnx_file import is_onnx_model
from tvm_ios.driver.options import DEFAULTS, TuneOptions, options_of_call, require_options
from tvm_ios.driver.several import are_several, joined
from tvm_ios.driver.tune_steps import TuneRace
from tvm_ios.errors import OptionError
from tvm_ios.runtime.artifact.decisions_file import DecisionFiles
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["TuneCall", "TuneRace", "tune", "tune_race", "tuned"]


def tune(
    mod: tvm.IRModule | Sequence[Any] | Mapping[str, Any],
    params: Mapping[str, Any] | Sequence[Any] | None = None,
    target: Any = None,
    *,
    share: str | Sequence[str] = (),
    effort: Effort | str | None = None,
    tuning: str | None = None,
    tuning_records: str | Path | Sequence[str | Path] | None = None,
    time_budget: float | TimeBudget | None = None,
    lanes: int | None = None,
    database: ProfileDatabase | str | Path | None = None,
    decisions: DecisionFiles = None,
    precision: str | None = None,
    max_relative_error: float | None = None,
    memory_limit_mb: float | None = None,
    deadlines_ms: Mapping[str, float] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: ProgressListener | None = None,
    options: TuneOptions = DEFAULTS,
) -> CompiledModel:
    """Find and compile the fastest inter-operator schedule of a model on this machine.

    AutoTVM and auto_scheduler ``ApplyHistoryBest`` contexts around the call are honoured, and so
    are a database of MetaSchedule and a ``PassContext``. The IOS schedule, and a list made from it,
    are timed against the greedy and the sequential one; a schedule is returned only if it beats
    sequential order beyond the noise.

    Parameters
    ----------
    mod
        A Relay module with a ``main`` of static shapes, or with TVM 0.27 one in Relax; an
        ``onnx.ModelProto``, the name of a network, or a path. Or several of these, or pairs of a
        module and its parameters, in a list or by name: they become one network with a named part
        for each. What Relax lacks is refused with its name.
    params
        Parameters by name; of several models a list of these, or those of each by name, None for
        models that bring theirs.
    target
        A CPU target, such as ``"llvm -mcpu=skylake-avx512"``, or ``"cuda"`` for the first GPU of
        this machine; the best for the processor where omitted.
    share
        Inputs that are one for all of several models which have them; others are named
        ``part__input``.
    effort
        ``"quick"`` gives a good answer in seconds, ``"balanced"`` is what ``options`` are by
        default, ``"thorough"`` also tunes kernels and takes up to an hour. For an effort with other
        options on top give ``options=TuneOptions.of("quick", …)`` in its place.
    tuning
        ``"autotvm"`` or ``"auto_scheduler"`` tunes the kernels first, ``"none"`` does not; where
        omitted, as effort or options say.
    tuning_records
        A log of either tuner, or several: their records are used, and new ones go to the first.
        Where omitted, a log in the cache folder. Stock TVM reads and writes the same. With TVM 0.27
        a folder of MetaSchedule, or several, whose records are used.
    time_budget
        Seconds of the whole call, or a budget whose clock runs. Preparing and compiling the model
        in sequential order is done in any case; the report says how long that takes. Pricing, other
        forms, kernel tuning, the search and the races take what is left, and the report says what
        was cut.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted, those of
        the device of an RPC tracker. On a GPU, streams; 8 where omitted.
    database
        A profile database or its file; where omitted, ``profiles.sqlite`` in the cache folder.
    decisions
        A file of another tuning of this model, or several: exported models, what ``tvm-ios
        decisions export`` wrote, or schedules in JSON. What they decide on is built and enters the
        last race; what does not fit is told in the report.
    precision
        ``"bfloat16"`` computes in it what is faster so, on processors that have it and with oneDNN;
        ``"float32"`` does not. Where omitted, as ``options`` say.
    max_relative_error
        Largest error that bfloat16 may cause, 0.03 where nobody says: the largest absolute
        difference of an output from float32, by the output's largest absolute value.
    memory_limit_mb
        Most megabytes (1e6 bytes) of activations that a schedule may plan; less runs at once where
        it needs more. No limit where omitted, or as ``options`` say.
    deadlines_ms
        Milliseconds from the start of a run until which parts of several models are to be done, by
        part. What keeps them goes before what is faster.
    inputs
        Arrays by name of the input, on which that error is checked; made-up ones where omitted.
    progress
        Called with a :class:`~tvm_ios.support.progress.Progress` now and then. Its ``model`` is
        each model that the call has before its end, from a first one in sequential order on.
    options
        Everything else: :class:`~tvm_ios.driver.options.TuneOptions` has fields for the search,
        each kind of measuring, layout and types, operator libraries, padded channels and exact
        bits, the tuners, a remote device, and measuring anew what the database knows.

    Raises
    ------
    ArtifactError, ScheduleError
        If a file of decisions cannot be read.
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
        an operator library is named and missing; or bfloat16 is asked for, and oneDNN or the
        processor's arithmetic for it is missing.
    DatabaseError
        If the profile database cannot be read.
    KeyboardInterrupt
        On Ctrl-C. Prices taken so far lie in the database, so the same call goes on from there;
        if there are any, a note on the exception says so. ``progress`` had the best model so far.

    Examples
    --------
    >>> import tvm_ios
    >>> from tvm_ios.models import squeezenet
    >>> mod, params = squeezenet(image_size=64)
    >>> compiled = tvm_ios.tune(mod, params)  # doctest: +SKIP
    >>> print(compiled.report().as_text())  # doctest: +SKIP
    """
    budget = budget_of_call(time_budget)  # first: its clock begins here
    network, weights = _one_network(mod, params, share)
    return tuned(
        TuneCall(
            mod=network,
            params=weights,
            target=target,
            tuning=tuning,
            tuning_records=tuning_records,
            time_budget=budget,
            lanes=lanes,
            database=database,
            decisions=decisions,
            progress=progress,
            inputs=arrays_of(inputs),
            options=options_of_call(
                effort,
                options,
                tuning,
                precision=precision,
                max_relative_error=max_relative_error,
                memory_limit_mb=memory_limit_mb,
                deadlines_ms=deadlines_ms,
            ),
        )
    )


def _one_network(mod: Any, params: Any, share: str | Sequence[str]) -> tuple[Any, Any]:
    """Module and parameters of a call's model, or of the network that its models make."""
    if are_several(mod):
        return joined(mod, params, share=share), {}
    if share:
        raise OptionError(f"share is {share!r}, but there is one model; leave it out")
    if isinstance(mod, str | Path) or is_onnx_model(mod):
        source = ModelSource.of(mod, params)
        return source.mod, source.params
    return mod, params


def tuned(given: TuneCall) -> CompiledModel:
    """Result of a call of :func:`tune`: the kept one of an equal call, or the winner of a race."""
    _require(given)
    call = KeptCall.of(given)
    if (known := call.find()) is not None:
        return known
    raced = tune_race(given)
    return call.keep(raced.kept, certain=raced.certain)


def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    _require(given)
    # Each imports a dialect that only one TVM has.
    steps = import_module(f"tvm_ios.driver.dialects.{DIALECT}_tune")
    raced: TuneRace = steps.tune_race(given)
    return raced


def _require(given: TuneCall) -> None:
    """Refuse options that are none, deadlines of no part, and inputs that nothing is checked on."""
    require_options(given.options)
    if not isinstance(given.params, Mapping | None):
        raise OptionError(f"params is a {type(given.params).__name__}; give arrays by name")
    if given.options.search.deadlines_ms:
        parts_named(given.parts, given.options.search.deadlines_ms)
    if given.inputs is None:
        return
    if not given.options.precision.is_low:
        raise OptionError(
            "inputs are given, but only errors of bfloat16 are checked on them; give "
            "precision='bfloat16' as well (--precision bfloat16), or leave them out"
        )
    require_inputs(given.inputs, given.mod, given.params)
