"""Lookup of each kernel of a build: whether a tuning record is in force, and if not, why.

TVM's own lowering looks up, from a fused function to a loop nest, as in the build, and this file
listens at the dispatch contexts. Nothing is compiled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

import tvm
from tvm import auto_scheduler, autotvm, relay
from tvm.auto_scheduler.utils import decode_workload_key
from tvm.ir.transform import PassContext

from tvm_ios.relay import StagedBuild
from tvm_ios.relay.context import ANSOR_SWITCH, dispatch_contexts, quiet_lookups, tvm_pipeline
from tvm_ios.relay.dataflow import local_function
from tvm_ios.relay.functions.primitive import kernel_digest
from tvm_ios.relay.kernels import empty_compiler, lowering
from tvm_ios.relay.record_listeners import AnsorListener, AutoTvmListener
from tvm_ios.report.records_in_force import (
    KernelRecord,
    MissingReason,
    RecordFormat,
    RecordsInForce,
)
from tvm_ios.tuning.records.records import TuningRecord, read_records
from tvm_ios.tuning.records.target_records import targets_with_key

__all__ = ["contexts_around", "records_around", "records_in_force"]

_Shape: TypeAlias = "tuple[Any, ...]"


def contexts_around() -> tuple[RecordFormat, ...]:
    """Tuners whose dispatch contexts are entered; TVM's fallback at the root does not count."""
    return tuple(log_format for log_format in RecordFormat if any(_entered(log_format)))


def records_around(staged: StagedBuild) -> RecordsInForce | None:
    """Records that the contexts around the call hold for a build made in them; None without any."""
    contexts = contexts_around()
    return records_in_force(staged, contexts=contexts) if contexts else None


def records_in_force(
    staged: StagedBuild,
    *,
    contexts: tuple[RecordFormat, ...],
    logs: Sequence[Path] = (),
    slower: Collection[str] = frozenset(),
) -> RecordsInForce:
    """Kernels of a build with a record in force; to be called where the build was made.

    Parameters
    ----------
    contexts
        Contexts around the caller, from :func:`contexts_around`.
    logs
        Logs whose records are applied by a context as well.
    slower
        Workloads of auto_scheduler whose records are left out for TVM's own kernels.
    """
    known = [*_known_to_contexts(staged.target), *_known_to_logs(logs, staged.target)]
    kernels = []
    with empty_compiler() as compiler:
        for function, operators in _kernels(staged):
            asked = _lowering_of(compiler, function, staged.target)
            if asked.tunable:
                kernels.append(
                    KernelRecord(
                        operators=operators,
                        shapes=_shapes(function),
                        found=asked.answered or _why_missing(asked, known, slower),
                    )
                )
    return RecordsInForce(contexts=contexts, logs=tuple(logs), kernels=tuple(kernels))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A workload that somebody has measured."""

    format: RecordFormat
    shape: _Shape
    """Shape as of :func:`_autotvm_shape`, or all extents of auto_scheduler's tensors in a row."""
    fits: bool
    """True if TVM would take it for the target at hand."""
    ok: bool = True
    """True if the candidate ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Workloads that the lowering of one kernel looked up."""

    autotvm: frozenset[Any]
    """Workloads of AutoTVM's templates; several where several can compute the kernel."""
    ansor: frozenset[str]
    """Workload keys of auto_scheduler; empty while it is off."""
    answered: RecordFormat | None

    @property
    def tunable(self) -> bool:
        return bool(self.autotvm or self.ansor)

    def matches(self, known: _Known) -> bool:
        """True if a known workload has the kernel's tensors, in whatever layout."""
        if known.format is RecordFormat.AUTOTVM:
            return any(known.shape == _autotvm_shape(arguments) for _, *arguments in self.autotvm)
        return any(_same_tensors(key, known.shape) for key in self.ansor)


def _kernels(staged: StagedBuild) -> Iterator[tuple[relay.Function, tuple[str, ...]]]:
    """Fused functions, each once, with the names of their operators."""
    functions: dict[str, relay.Function] = {}
    operators: dict[str, list[str]] = {}
    for call, name in zip(staged.extraction.calls, staged.operator_names, strict=True):
        function = local_function(call)
        if function is not None:
            digest = kernel_digest(function)
            functions.setdefault(digest, function)
            operators.setdefault(digest, []).append(name)
    for digest, function in functions.items():
        yield function, tuple(operators[digest])


def _lowering_of(compiler: Any, function: relay.Function, target: tvm.target.Target) -> _Asked:
    templates, ansor = AutoTvmListener(), AnsorListener()
    with quiet_lookups(), tvm_pipeline(), target, templates, ansor, lowering:
        compiler.lower(function, target)
    answered = None
    if ansor.answered:
        answered = RecordFormat.AUTO_SCHEDULER
    elif templates.answered:
        answered = RecordFormat.AUTOTVM
    return _Asked(
        autotvm=frozenset(templates.workloads),
        ansor=frozenset(ansor.workloads),
        answered=answered,
    )


def _why_missing(asked: _Asked, known: Iterable[_Known], slower: Collection[str]) -> MissingReason:
    matching = [each for each in known if asked.matches(each)]
    ran = [each for each in matching if each.ok]
    if not asked.ansor.isdisjoint(slower):
        return MissingReason.SLOWER
    if any(each.fits for each in ran):
        return MissingReason.OTHER_LAYOUT
    if ran:
        return MissingReason.OTHER_TARGET
    if matching:
        return MissingReason.FAILED
    if any(_entered(RecordFormat.AUTO_SCHEDULER)) and not _ansor_is_on():
        return MissingReason.SWITCHED_OFF
    return MissingReason.NO_RECORD


def _ansor_is_on() -> bool:
    return bool(PassContext.current().config.get(ANSOR_SWITCH))


def _entered(log_format: RecordFormat) -> Iterator[Any]:
    """Contexts of one tuner that TVM asks, the innermost first; a fallback passes nothing on."""
    contexts, fallback = {
        RecordFormat.AUTOTVM: (autotvm.task.DispatchContext, autotvm.FallbackContext),
        RecordFormat.AUTO_SCHEDULER: (
            auto_scheduler.dispatcher.DispatchContext,
            auto_scheduler.dispatcher.FallbackContext,
        ),
    }[log_format]
    return takewhile(lambda each: not isinstance(each, fallback), dispatch_contexts(contexts))


def _known_to_contexts(target: tvm.target.Target) -> Iterator[_Known]:
    """Records of ``ApplyHistoryBest``; other contexts do not tell their records."""
    keys = set(map(str, target.keys))
    for context in _entered(RecordFormat.AUTOTVM):
        for key, (measured, _) in getattr(context, "best_by_targetkey", {}).items():
            yield _Known(
                format=RecordFormat.AUTOTVM,
                shape=_autotvm_shape(measured.task.args),
                fits=str(key[0]) in keys,
            )
    for context in _entered(RecordFormat.AUTO_SCHEDULER):
        for key, workloads in getattr(context, "best_by_targetkey", {}).items():
            for entries in workloads.values():
                for extents in entries:
                    yield _Known(
                        format=RecordFormat.AUTO_SCHEDULER,
                        shape=tuple(extents or ()),
                        fits=str(key) in keys,
                    )


def _known_to_logs(logs: Sequence[Path], target: tvm.target.Target) -> Iterator[_Known]:
    records = read_records(*logs).records
    fitting = targets_with_key(records, target)
    for record in records:
        yield _Known(
            format=record.format,
            shape=_shape_of(record),
            fits=record.target in fitting,
            ok=record.ok,
        )


def _shape_of(record: TuningRecord) -> _Shape:
    if record.format is RecordFormat.AUTOTVM:
        return _autotvm_shape(json.loads(record.workload)[1])
    return tuple(decode_workload_key(record.workload)[1] or ())


def _autotvm_shape(arguments: Iterable[Any]) -> _Shape:
    """Facts that no layout changes: elements and type of tensors, strides, padding, dilation."""
    shape: list[Any] = []
    for argument in arguments:
        match argument:
            case ["TENSOR", [*extents], str(dtype)] if _are_whole(extents):
                shape.append((math.prod(extents), dtype))
            case [*numbers] if _are_whole(numbers):
                shape.append(tuple(numbers))
    return tuple(shape)


def _are_whole(values: Iterable[Any]) -> bool:
    """True if all values are numbers; a record of another TVM may name an open extent."""
    return all(isinstance(value, int) for value in values)


def _same_tensors(key: str, extents: _Shape) -> bool:
    """True if extents in a row are those of a workload's tensors, in any split and order."""
    left = [extent for extent in extents if extent != 1]
    for shape in json.loads(key)[1:]:
        wanted = math.prod(shape)
        while wanted > 1:
            if not left or not isinstance(left[0], int) or wanted % left[0]:
                return False
            wanted //= left.pop(0)
    return not left


def _shapes(function: relay.Function) -> str:
    types = [parameter.checked_type for parameter in function.params]
    tensors = [type_ for type_ in types if isinstance(type_, tvm.ir.TensorType)]
    return " * ".join("x".join(str(int(n)) for n in tensor.shape) for tensor in tensors[:2])
