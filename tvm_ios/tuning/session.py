"""Tunes a model's kernels and decides, on the whole network, whether they are used.

A kernel that wins alone may lose in its network, so the tuned build is timed against the untuned
one, both in sequential order on our lanes, interleaved. It is used only where it wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.build_choice import choose_build
from tvm_ios.compiled import BuiltModel, build_model
from tvm_ios.core.c_compiler import cache_directory
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.cost.compare import CompareOptions
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.errors import OptionError, RecordError
from tvm_ios.progress import PhaseClock
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.tuning.ansor import ANSOR, AnsorBackend
from tvm_ios.tuning.ansor_choice import slower_workloads
from tvm_ios.tuning.autotvm_backend import AutoTvmBackend
from tvm_ios.tuning.backend import Application, TuningBackend
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TuningOutcome
from tvm_ios.tuning.record_lookup import contexts_around, records_in_force
from tvm_ios.tuning.records import RecordFormat, mend_records, read_records
from tvm_ios.tuning.records_in_force import RecordsInForce

__all__ = [
    "BACKENDS",
    "TunedKernels",
    "TuningRequest",
    "default_records_path",
    "merged_modules",
    "tuned_kernels",
]

BACKENDS = ("autotvm", "auto_scheduler")
UNTUNED = "untuned"
WITHOUT_TUNING = frozenset({"rpc_tracker", "rpc_key"})
"""Options that say where stages are priced, too."""
FASTER_ONLY = f"{ANSOR}, faster kernels only"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """What kind of tuning a caller wants.

    Raises
    ------
    OptionError
        If the back end is unknown, or there is nothing to do.
    RecordError
        If a log that is only read does not exist.
    """

    backend: str | None = None
    """One of :data:`BACKENDS`; None tunes nothing and uses the records there are."""
    records: tuple[Path, ...] = ()
    """Logs that are applied; the first one is appended to. :func:`default_records_path` where
    there is none."""
    options: TuningOptions = field(default_factory=TuningOptions)
    pad_merged_kernels: bool = True
    """Whether merges of different kernel sizes are tuned, as the search may choose them."""

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
        options: TuningOptions | None = None,
        *,
        pad_merged_kernels: bool = True,
        **changes: Any,
    ) -> TuningRequest | None:
        """From the arguments of ``tune``; None where no tuning is asked for.

        Parameters
        ----------
        changes
            Options by name that go over those of ``options``, None for no change.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        if backend is None and records is None:
            idle = [name for name in given if name not in WITHOUT_TUNING]
            if idle:
                raise OptionError(
                    f"{', '.join(idle)} given without tuning; give tuning='autotvm' or "
                    "'auto_scheduler' as well"
                )
            return None
        paths = (
            ()
            if records is None
            else (Path(records),)
            if isinstance(records, str | Path)
            else tuple(map(Path, records))
        )
        return cls(
            backend=backend,
            records=paths,
            options=replace(options or TuningOptions(), **given),
            pad_merged_kernels=pad_merged_kernels,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedKernels:
    """The kernels that tuning left us with."""

    built: BuiltModel
    """What to schedule: the tuned build, or the untuned one where that is not slower."""
    layout: str | None
    """Which way the records were applied; None where the untuned build is used."""
    outcome: TuningOutcome | None
    """None where nothing was to be tuned."""
    notes: tuple[str, ...]
    records: RecordsInForce
    """Which kernels of :attr:`built` have a record; of a tuned build that lost, which had one."""


def default_records_path(backend: str) -> Path:
    """``autotvm.log`` or ``auto_scheduler.log`` in the cache folder of tvm-ios."""
    return cache_directory() / f"{backend}.log"


@contextmanager
def tuned_kernels(
    untuned: BuiltModel,
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    request: TuningRequest,
    clock: PhaseClock,
    *,
    lanes: int,
    device: MeasuringDevice,
    compare_options: CompareOptions | None = None,
) -> Iterator[TunedKernels]:
    """Tune, build, and keep what is faster; the records stay in force inside.

    Parameters
    ----------
    untuned
        The model, built without these records.
    mod, params
        The user's model.
    request
        How it is tuned.
    clock
        Told of the phases ``tune`` and ``build tuned``.
    lanes
        Lanes the network is timed on.
    device
        Where it is timed.
    compare_options
        How it is timed.

    Raises
    ------
    TuningError, RecordError, OptionError
        If a tuner, a tracker or a log is missing or unfit.
    """
    target = untuned.prepared.target
    notes: list[str] = []
    logs = list(request.records)
    if not logs and request.backend is not None:
        logs = [default_records_path(request.backend)]
    for log in logs:
        moved = mend_records(log)
        if moved:
            notes.append(f"{moved} unreadable lines of {log} were moved to {log}.rejected")
    outcome = None
    if request.backend is not None:
        with clock.phase("tune"):
            merged = merged_modules(untuned, pad_kernels=request.pad_merged_kernels)
            backend = _backend(request.backend, merged)
            outcome = backend.tune(
                mod,
                params or {},
                target,
                logs[0],
                request.options,
                lambda step: clock.say(step.detail, done=step.done),
            )
    logs = [log for log in logs if log.exists()]
    variants = _variants(logs)
    builds = {UNTUNED: untuned}
    contexts = contexts_around()
    slower: frozenset[str] = frozenset()

    def build(name: str) -> None:
        with clock.phase("build tuned"), variants[name]():
            builds[name] = build_model(mod, params, target, name=untuned.name)

    for name in tuple(variants):
        build(name)
    if ANSOR in builds:
        with clock.phase("check tuned"):
            slower = slower_workloads(untuned, builds[ANSOR], lanes=lanes, device=device)
        if slower:
            notes.append(
                f"auto_scheduler's records of {len(slower)} kernels are slower than TVM's own"
            )
            variants[FASTER_ONLY] = partial(AnsorBackend().applied, logs, without=slower)
            build(FASTER_ONLY)
    with clock.phase("check tuned"):
        best, found = choose_build(builds, lanes=lanes, options=compare_options, device=device)
    notes += [f"tuned kernels, {note}" for note in found]
    if best == UNTUNED:
        notes.append("no records make the network faster beyond the noise, so none are used")
    used = best != UNTUNED
    # What lost is told of, unless records around the call are in force after all.
    told = best if used or contexts or not variants else next(iter(variants))
    with variants[told]() if told in variants else nullcontext():
        records = records_in_force(
            builds[told].kernels.staged,
            contexts=contexts,
            logs=logs if told in variants or not variants else (),
            slower=slower,
        )
    with variants[best]() if used else nullcontext():
        yield TunedKernels(
            built=builds[best],
            layout=best if used else None,
            outcome=outcome,
            notes=tuple(notes),
            records=records if told == best else records.not_used(),
        )


def _backend(name: str, extra_modules: tuple[tvm.IRModule, ...]) -> TuningBackend:
    kind = AutoTvmBackend if name == "autotvm" else AnsorBackend
    return kind(extra_modules=extra_modules)


def merged_modules(built: BuiltModel, *, pad_kernels: bool = True) -> tuple[tvm.IRModule, ...]:
    """The widest merges of convolutions that read one tensor: each needs a kernel of its own.

    Parameters
    ----------
    built
        The model.
    pad_kernels
        As in :func:`tvm_ios.core.merge_rule.why_not_merge`.
    """
    by_operand: dict[str, list[int]] = {}
    operators = built.graph.operators
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
                modules[key] = merge_stage_module(built.extraction, tuple(members))
    return tuple(modules.values())


def _variants(logs: Sequence[Path]) -> dict[str, Application]:
    """Ways to apply logs, by name, for each format that occurs."""
    found: dict[str, Application] = {}
    for log_format in RecordFormat:
        fitting = [
            log for log in logs if any(r.format is log_format for r in read_records(log).records)
        ]
        if fitting:
            found.update(_backend(log_format.value, ()).variants(fitting))
    return found
