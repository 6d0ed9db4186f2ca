"""Which of Ansor's kernels are worth having: task by task, on the lanes the network runs on.

A search that was cut short leaves tasks with kernels slower than TVM's own. Both builds have the
same operators, so each kernel is priced next to the one it would replace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tvm
from tvm import relay

from tvm_ios.compiled import BuiltModel
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.pricing import KernelPrices, RelayStageRunner
from tvm_ios.relay import Extraction
from tvm_ios.relay.primitive import kernel_digest
from tvm_ios.runtime.remote_device import RemoteDevice, session_on
from tvm_ios.tuning.ansor_tasks import ansor_context, workloads_of

__all__ = ["operator_workloads", "slower_workloads"]

SCATTER = 0.03
"""Prices of one kernel differ by so much, as a fraction; what loses less may win as well."""


def slower_workloads(
    untuned: BuiltModel,
    tuned: BuiltModel,
    *,
    lanes: int,
    options: MeasureOptions | None = None,
    device: RemoteDevice | None = None,
) -> frozenset[str]:
    """Workloads whose records had better not be applied, since TVM's own kernels are faster.

    Operators that differ between the builds are left out: of a dense layer TVM has its own kernel
    only while auto_scheduler is off.

    Parameters
    ----------
    untuned, tuned
        One model, built without and with records of auto_scheduler.
    lanes
        Lanes the network runs on. A kernel costs what it does with all of them or with one,
        whichever is less.
    options
        How kernels are timed.
    device
        Where they are timed; this machine where omitted.

    Raises
    ------
    CostError, OptionError
        If a kernel cannot be run, or there are more lanes than cores.
    """
    operators = untuned.graph.operators, tuned.graph.operators
    if len(operators[0]) != len(operators[1]):
        return frozenset()
    keys = operator_workloads(tuned.extraction, tuned.prepared.target)
    places = {
        place: key
        for place, (before, after, key) in enumerate(zip(*operators, keys, strict=True))
        if before.workload == after.workload and key is not None
    }
    before_ns, after_ns = (
        _prices_ns(built, tuple(places), lanes=lanes, options=options, device=device)
        for built in (untuned, tuned)
    )
    own_ns: Counter[str] = Counter()
    tuned_ns: Counter[str] = Counter()
    for key, before, after in zip(places.values(), before_ns, after_ns, strict=True):
        own_ns[key] += before
        tuned_ns[key] += after
    return frozenset(key for key in own_ns if tuned_ns[key] > own_ns[key] * (1 + SCATTER))


def operator_workloads(extraction: Extraction, target: tvm.target.Target) -> tuple[str | None, ...]:
    """The task of each operator; None where it has none of its own, as without a reduction."""
    known: dict[str, str | None] = {}
    keys: list[str | None] = []
    with ansor_context():
        for call in extraction.calls:
            if not isinstance(call.op, relay.Function):
                keys.append(None)
                continue
            digest = kernel_digest(call.op)
            if digest not in known:
                found = list(workloads_of(_only(call.op), target))
                known[digest] = found[0] if len(found) == 1 else None
            keys.append(known[digest])
    return tuple(keys)


def _only(function: relay.Function) -> tvm.IRModule:
    """A module that calls one fused function."""
    parameters = [relay.Var(old.name_hint, old.checked_type) for old in function.params]
    main = relay.Function(parameters, relay.Call(function, parameters))
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


def _prices_ns(
    built: BuiltModel,
    places: Sequence[int],
    *,
    lanes: int,
    options: MeasureOptions | None,
    device: RemoteDevice | None,
) -> Sequence[int]:
    with (
        session_on(device) as session,
        RelayStageRunner(built, lanes=lanes, session=session) as runner,
    ):
        prices = KernelPrices(runner, options=options)
        prices.price_operators()  # settles how many lanes each is best run on
        return prices.price(built.graph, [Stage(((place,),)) for place in places])
