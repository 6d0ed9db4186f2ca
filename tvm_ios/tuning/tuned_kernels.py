"""Tuning of a model's kernels, and the decision by whole networks whether they are used.

A kernel that wins alone may lose in its network. So the tuned build is timed against the untuned
one, both in sequential order on our lanes, interleaved, and used only where it wins.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.dialects.dialect import in_precision
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.cost.known_choices import BuildChoice
from tvm_ios.errors import OptionError, OutOfTimeError, RecordError
from tvm_ios.host import cached_libinfo
from tvm_ios.profile.build_choice import choose_build, with_libraries
from tvm_ios.profile.fastest_build import Records
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.context import model_digest
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.prepare import prepare
from tvm_ios.report.records_in_force import RecordFormat, RecordsInForce
from tvm_ios.runtime.artifact.evidence import CurvePoint
from tvm_ios.support.exact_bits import bits_may_change
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.ansor.backend import ANSOR, AnsorBackend
from tvm_ios.tuning.ansor.choice import JudgedRecords, judged_records
from tvm_ios.tuning.ansor.history import recorded_workloads
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions, default_records_path
from tvm_ios.tuning.outcome import TuningOutcome
from tvm_ios.tuning.records.curve import tuning_curve
from tvm_ios.tuning.records.record_lookup import contexts_around, records_in_force
from tvm_ios.tuning.records.records import mend_records, read_records
from tvm_ios.tuning.records.target_records import records_for

__all__ = [
    "BACKENDS",
    "TunedKernels",
    "TuningRequest",
    "merged_modules",
    "tuned_kernels",
]

_BACKENDS: Mapping[str, type[AutoTvmBackend | AnsorBackend]] = {
    "autotvm": AutoTvmBackend,
    "auto_scheduler": AnsorBackend,
}
BACKENDS = tuple(_BACKENDS)
UNTUNED = "untuned"
TUNERS_SHARE = 0.6
"""Tuners' share of the time left when they begin; builds, searches and races need the rest."""
FASTER_ONLY = f"{ANSOR}, faster kernels only"
_NOT_FASTER = "no records make the network faster beyond the noise"
_NONE_FITS = "no records are for kernels of this network"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """Kind of tuning that a caller wants.

    Raises
    ------
    OptionError
        If the back end is unknown, or there is nothing to do.
    RecordError
        If a log that is only read does not exist.
    """

    backend: str | None = None
    """Name out of :data:`BACKENDS`; None tunes nothing and uses existing records."""
    records: tuple[Path, ...] = ()
    """Logs that are applied; the first one is appended to. Without any,
    :func:`~tvm_ios.tuning.options.default_records_path`."""
    options: TuningOptions = field(default_factory=TuningOptions)
    device: DeviceOptions = field(default_factory=DeviceOptions)
    """Device that candidates are measured on, if not this machine."""
    pad_merged_kernels: bool = True
    """True also tunes merges of different kernel sizes, as the search may choose them."""

    def __post_init__(self) -> None:
        if self.backend is not None and self.backend not in BACKENDS:
            raise OptionError(
                f"tuning is {self.backend!r}; choose from {', '.join(map(repr, BACKENDS))}, or None"
            )
        if self.backend is None and not self.records:
            raise OptionError("neither a tuning back end nor records were given; give one")
        for log in self.records if self.backend is None else self.records[1:]:
            if not log.exists():
                raise RecordError(
                    f"there are no tuning records at {log}; tune first, or mend the path"
                )

    @classmethod
    def of(
        cls,
        backend: str | None,
        records: str | Path | Sequence[str | Path] | None,
        *,
        options: TuningOptions,
        device: DeviceOptions,
        pad_merged_kernels: bool,
    ) -> TuningRequest | None:
        """Request from arguments of ``tune``; None where no tuning is asked for."""
        used = options.used_by(backend)
        names = (each.name for each in fields(options) if each.name != "backend")
        idle = [name for name in names if getattr(options, name) != getattr(used, name)]
        if idle:
            how = "without tuning" if backend is None else f"with tuning={backend!r}"
            others = " or ".join(repr(each) for each in BACKENDS if each != backend)
            raise OptionError(
                f"{', '.join(idle)} given {how}, where nothing reads that; leave it out, or give "
                f"tuning={others}"
            )
        if backend is None and records is None:
            return None
        paths = [records] if isinstance(records, str | Path) else records or ()
        return cls(
            backend=backend,
            records=tuple(map(Path, paths)),
            options=options,
            device=device,
            pad_merged_kernels=pad_merged_kernels,
        )

    @property
    def logs(self) -> tuple[Path, ...]:
        """Logs that are applied, whether they exist or not."""
        return self.records or (default_records_path(str(self.backend)),)

    @contextmanager
    def ansor_records(self, target: tvm.target.Target) -> Iterator[None]:
        """Context with auto_scheduler's records in the logs in force, before anything is tuned.

        Only they can be for NHWC kernels: AutoTVM has no template for those on a CPU.
        """
        logs = [log for log in self.logs if log.exists()]
        with _variants(logs, target).get(ANSOR, nullcontext)():
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedKernels:
    """Kernels that remain after tuning, with records and notes."""

    built: BuiltModel
    """Model to schedule: tuned, or untuned where that is not slower."""
    layout: str | None
    """Name of the way the records were applied; None where the untuned build is used."""
    outcome: TuningOutcome | None
    """Outcome of the tuner; None where nothing was to be tuned."""
    notes: tuple[str, ...]
    records: RecordsInForce
    """Kernels of :attr:`built` with their records; of a tuned build that lost, the ones it had."""
    curve: tuple[CurvePoint, ...]
    """Curve of tuning by the log; empty where nothing was to be tuned."""


@contextmanager
def tuned_kernels(
    untuned: BuiltModel,
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    request: TuningRequest,
    call: MeasuringCall,
) -> Iterator[TunedKernels]:
    """Context with the faster of the tuned and untuned kernels, and their records in force.

    The call's clock gets the phases ``tune`` and ``build tuned``. Tuners get a share of what is
    left of its budget. Builds that lost before, as its database knows, are not made again. Operator
    libraries of the untuned build may compute in all builds.
    """
    target = untuned.prepared.target
    logs, notes = _mended_logs(request)
    outcome = None
    if request.backend is not None:
        with call.clock.phase("tune"):
            with call.gate.stage(call.to_prepare("merges")):
                merged = merged_modules(
                    _in_float32(untuned, mod, params), pad_kernels=request.pad_merged_kernels
                )
            backend = _BACKENDS[request.backend](
                extra_modules=merged, device=request.device, gate=call.gate
            )
            outcome = backend.tune(
                mod,
                params or {},
                target,
                logs[0],
                _within(request.options, call.budget),
                lambda step: call.clock.say(
                    step.detail,
                    done=step.done,
                    unit=step.unit,
                    share=step.share,
                    best_ms=step.best_ms,
                ),
            )
    logs = [log for log in logs if log.exists()]
    variants = _variants(logs, target)
    builds = {UNTUNED: untuned}
    contexts = contexts_around()

    def build(name: str) -> None:
        with call.stage("build tuned", call.to_prepare()), variants[name]():
            builds[name] = _built_like(untuned, mod, params)
        if builds[name].prepared.low is None and untuned.prepared.low is not None:
            notes.append(
                f"kernels tuned by {name} compute in float32 alone: with their records the model "
                "has other operators than in bfloat16"
            )

    choices = call.choices(target)
    low = "" if untuned.prepared.low is None else f" in {untuned.graph.fingerprint()}"
    question = with_libraries(
        f"records of {model_digest(mod, params)}{low}: {_digest_of(logs)}", untuned.libraries
    )
    choice = choices.known(question)
    if choice is None or choice.kept not in (UNTUNED, *variants, FASTER_ONLY):
        for name in tuple(variants):
            build(name)
        with call.stage("check tuned", call.to_profile) as granted:
            judged = _judged(untuned, builds.get(ANSOR), logs, call.at(granted))
        if judged.slower:
            variants[FASTER_ONLY] = partial(
                AnsorBackend().applied, logs, target, without=judged.slower
            )
            build(FASTER_ONLY)
        # Without any record TVM may have nothing but plain loops: such a race takes half an hour.
        # What was tuned just now is raced, since it may be for merges, which are no operators yet.
        fits = judged.workloads or request.backend == ANSOR
        hopeless = frozenset[str]() if fits else {ANSOR}
        usable = {name: built for name, built in builds.items() if name not in hopeless}
        choice = replace(_faster_of(usable, call), left_out=tuple(sorted(judged.slower)))
        choices.keep(question, choice)
    best, slower = choice.kept, frozenset(choice.left_out)
    if slower:
        variants[FASTER_ONLY] = partial(AnsorBackend().applied, logs, target, without=slower)
        notes.append(f"auto_scheduler's records of {len(slower)} kernels are slower than TVM's own")
    notes += [f"tuned kernels, {note}" for note in choice.notes]
    used = best != UNTUNED
    # What lost is told of, unless records around the call are in force after all.
    told = best if used or contexts or not variants else next(iter(variants))
    if told not in builds:
        build(told)
    with variants[told]() if told in variants else nullcontext():
        records = records_in_force(
            builds[told].kernels.staged,
            contexts=contexts,
            logs=logs if told in variants or not variants else (),
            slower=slower,
        )
    if not used:
        notes.append(f"{_NOT_FASTER if records.applied else _NONE_FITS}, so none are used")
    with variants[best]() if used else nullcontext():
        yield TunedKernels(
            built=builds[best],
            layout=best if used else None,
            outcome=outcome,
            notes=tuple(notes),
            records=records if told == best else records.not_used(),
            curve=() if outcome is None else _curve_of(outcome, logs, target),
        )


def _built_like(
    untuned: BuiltModel, mod: tvm.IRModule, params: Mapping[str, Any] | None
) -> BuiltModel:
    """Build with the records in force; in bfloat16 as the untuned one, if operators are the same.

    Kernels that read and write bfloat16 compute in float32, so records are for them as well.
    """
    with cached_libinfo():
        prepared = prepare(mod, params, untuned.prepared.target)
        if _operators_of(prepared.extraction.graph) == _operators_of(untuned.graph):
            prepared = in_precision(prepared, untuned.prepared.low) or prepared
        built = build_prepared(prepared, name=untuned.name)
    return replace(built, libraries=untuned.libraries, form=untuned.form)


def _operators_of(graph: OperatorGraph) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.kind, each.predecessors) for each in graph.operators]


def _faster_of(builds: Mapping[str, BuiltModel], call: MeasuringCall) -> BuildChoice:
    """Choice of kernels by a race; untuned ones, for now, where the time budget has none."""
    try:
        with call.stage("check tuned", call.to_profile) as granted:
            return choose_build(builds, call.at(granted))
    except OutOfTimeError as error:
        call.budget.cut(f"tuned kernels were not raced: {error}")
        return BuildChoice(kept=UNTUNED, notes=(), certain=False)


def _judged(
    untuned: BuiltModel, tuned: BuiltModel | None, logs: Sequence[Path], call: MeasuringCall
) -> JudgedRecords:
    """Worth of auto_scheduler's records: each kernel against TVM's own."""
    if tuned is None:
        return JudgedRecords(workloads=frozenset(), slower=frozenset())
    with call.open() as session:
        return judged_records(
            replace(untuned, libraries=()),
            replace(tuned, libraries=()),
            recorded_workloads(logs, untuned.prepared.target),
            lanes=call.lanes,
            session=session,
        )


def _curve_of(
    outcome: TuningOutcome, logs: Sequence[Path], target: tvm.target.Target
) -> tuple[CurvePoint, ...]:
    """Curve of all candidates in the logs for the outcome's tasks and this target."""
    weights = {task.workload: task.weight for task in outcome.tasks}
    return tuning_curve(records_for(read_records(*logs).records, target), weights)


def _mended_logs(request: TuningRequest) -> tuple[list[Path], list[str]]:
    """Logs of a request without unreadable lines, and notes on what was moved."""
    logs = list(request.logs)
    moved = {log: mend_records(log) for log in logs}
    notes = [
        f"{count} unreadable lines of {log} were moved to {log}.rejected"
        for log, count in moved.items()
        if count
    ]
    return logs, notes


def _digest_of(logs: Sequence[Path]) -> str:
    """Digest of the content of logs, in order."""
    digest = hashlib.sha256()
    for log in logs:
        digest.update(hashlib.sha256(log.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _within(options: TuningOptions, budget: TimeBudget) -> TuningOptions:
    """Options with no more time than the whole call has to spare."""
    if math.isinf(budget.left_s):
        return options
    spare_s = max(1.0, TUNERS_SHARE * budget.spare_s)
    given_s = options.time_budget_s
    return replace(options, time_budget_s=spare_s if given_s is None else min(given_s, spare_s))


def _in_float32(
    untuned: BuiltModel, mod: tvm.IRModule, params: Mapping[str, Any] | None
) -> Extraction:
    """Operators as kernels compute them: tuners cannot compile bfloat16."""
    if untuned.prepared.low is None:
        own: Extraction = untuned.extraction
        return own
    return prepare(mod, params, untuned.prepared.target).extraction


def merged_modules(extraction: Extraction, *, pad_kernels: bool = True) -> tuple[tvm.IRModule, ...]:
    """Widest merges of convolutions that read one tensor; each needs a kernel of its own.

    There are none where bits are to be exact.
    """
    if not bits_may_change():
        return ()
    by_operand: dict[str, list[int]] = {}
    operators = extraction.graph.operators
    for index, operator in enumerate(operators):
        if operator.convolution is not None and operator.convolution.plain_operand:
            by_operand.setdefault(operator.convolution.operand, []).append(index)
    modules: dict[tuple[str, ...], tvm.IRModule] = {}
    for readers in by_operand.values():
        left = readers
        while len(left) > 1:
            members = left[:1]
            for index in left[1:]:
                wider = [operators[member].convolution for member in (*members, index)]
                if why_not_merge(wider, pad_kernels=pad_kernels) is None:
                    members.append(index)
            left = [index for index in left if index not in members]
            key = tuple(operators[member].workload for member in members)
            if len(members) > 1 and key not in modules:
                modules[key] = merge_stage_module(extraction, tuple(members))
    return tuple(modules.values())


def _variants(logs: Sequence[Path], target: tvm.target.Target) -> dict[str, Records]:
    """Ways to apply logs, by name, for each format that occurs."""
    found: dict[str, Records] = {}
    for log_format in RecordFormat:
        fitting = [
            log for log in logs if any(r.format is log_format for r in read_records(log).records)
        ]
        if fitting:
            found.update(_BACKENDS[log_format.value]().variants(fitting, target))
    return found
