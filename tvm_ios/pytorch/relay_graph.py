"""A captured graph with its parts compiled in Relay, through traces of TorchScript."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import Any

import torch
from torch import fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions
from torch.utils import _pytree as pytree

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.later.begun_call import LaterModel, begin_tune
from tvm_ios.driver.tune import tuned
from tvm_ios.errors import ModelError, TvmIosError
from tvm_ios.pytorch.agreement import QUANTISED
from tvm_ios.pytorch.captured import NUMBERS, CapturedGraph
from tvm_ios.pytorch.options import BackendOptions
from tvm_ios.pytorch.part import CompiledPart, checked_part
from tvm_ios.pytorch.takeable import gives_views, obstacles_by_call, takeable_parts
from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.frontends.torch import (
    change_in_place,
    from_trace,
    input_names,
    traced,
    training_operator,
    with_constants,
)
from tvm_ios.relay.frontends.torch_operators import missing_operators
from tvm_ios.relay.functions.quantised import DEQUANTIZE
from tvm_ios.relay.inputs import weight_inputs

__all__ = ["with_parts"]

_LOG = logging.getLogger(__name__)
_PREFIX = "tvm_ios_part_"
_LOG = logging.getLogger(__name__)


def with_parts(
    graph: CapturedGraph, arguments: tuple[Any, ...], options: BackendOptions
) -> torch.nn.Module:
    """Graph for given sizes and weights, in which TVM computes what it can take."""
    module = graph.bound(arguments)
    tensors = tuple(arguments[place].detach().clone() for place in graph.tensors)
    found = _examined(module, tensors)
    graph.lend_weights(module, arguments)
    if isinstance(found, _Whole):
        return _compiled_or_torchs(module, found.trace, tensors, found.result, options)
    obstacles = found
    calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
    parts = takeable_parts(module, obstacles)
    taken = {node for part in parts for node in part}
    left = Counter(obstacles.get(node, "alone between them") for node in calls if node not in taken)
    if left:
        _LOG.warning(
            "tvm_ios leaves %d of %d calls to torch: %s",
            left.total(),
            len(calls),
            "; ".join(f"{reason} ({count})" for reason, count in left.most_common()),
        )
    fused = fuse_by_partitions(module, [dict.fromkeys(part) for part in parts], prefix=_PREFIX)
    names = [name for name, _ in fused.named_children() if name.startswith(_PREFIX)]
    for name, (given, result) in _seen(fused, names, tensors).items():
        part = fused.get_submodule(name)
        fused.set_submodule(name, _compiled_or_torchs(part, None, given, result, options))
    return fused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """A graph that TVM takes as a whole."""

    trace: Any
    result: tuple[torch.Tensor, ...]


def _examined(module: fx.GraphModule, tensors: tuple[Any, ...]) -> _Whole | dict[fx.Node, str]:
    """The graph, or reasons that keep TVM from calls, by call."""
    try:
        return _found(module, tensors)
    except ModelError:
        raise
    # What is looked at is run and traced, and fails in whatever way its code can.
    except Exception as error:
        module(*tensors)  # where torch fails as well, the caller's values are wrong, not the graph
        raise ModelError(f"it cannot be looked at: {type(error).__name__}: {error}") from error


def _found(module: fx.GraphModule, tensors: tuple[Any, ...]) -> _Whole | dict[fx.Node, str]:
    """The graph, or reasons by call; looked for one by one only if TVM cannot take the whole."""
    calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
    if any(isinstance(node.meta.get("example_value"), NUMBERS) for node in calls):
        # A trace of the whole would hold what they are with these inputs.
        return obstacles_by_call(module, tensors)
    try:
        whole = traced(module, tensors)
    except ModelError:
        # Numbers among the outputs cannot be traced, nor can what is not a tensor in between.
        return obstacles_by_call(module, tensors)
    if reason := change_in_place(whole) or training_operator(whole):
        raise ModelError(reason)
    if missing_operators(whole):
        return obstacles_by_call(module, tensors)
    with torch.no_grad():
        result = module(*tensors)
    if gives_views(module, tensors, result):
        return obstacles_by_call(module, tensors)
    is_flat = isinstance(result, tuple) and all(isinstance(x, torch.Tensor) for x in result)
    return _Whole(trace=whole, result=result) if is_flat else {}


def _seen(
    module: fx.GraphModule, names: list[str], tensors: tuple[Any, ...]
) -> dict[str, tuple[tuple[Any, ...], Any]]:
    """Arguments and results of each part in a run of the graph."""
    seen: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def watch(name: str) -> Callable[..., None]:
        def note(_: torch.nn.Module, given: tuple[Any, ...], result: Any) -> None:
            seen[name] = given, result

        return note

    handles = [module.get_submodule(name).register_forward_hook(watch(name)) for name in names]
    with torch.no_grad():
        module(*tensors)
    for handle in handles:
        handle.remove()
    return seen


def _compiled_or_torchs(
    module: torch.nn.Module,
    trace: Any,
    given: tuple[Any, ...],
    result: Any,
    options: BackendOptions,
) -> torch.nn.Module:
    """Compiled part in the place of a module, which stays where that cannot be had.

    The trace is the module's for these tensors; None where there is none yet.
    """
    try:
        return _compiled_part(module, trace, given, result, options)
    except ModelError as error:
        _LOG.warning("tvm_ios leaves a part of a graph to torch: %s", error)
        return module


def _compiled_part(
    module: torch.nn.Module,
    trace: Any,
    given: tuple[Any, ...],
    result: Any,
    options: BackendOptions,
) -> CompiledPart | _ImprovingPart:
    leaves = pytree.tree_leaves((given, result))
    if not all(each.numel() for each in leaves if isinstance(each, torch.Tensor)):
        raise ModelError("a tensor of it has no elements")
    trace = trace or traced(module, given)
    mod, params = from_trace(trace, given)
    names = input_names(trace, len(given))
    rounds = any(is_call_of(call, DEQUANTIZE) for call in all_calls(mod["main"].body))
    if set(weight_inputs(mod["main"])) <= set(params):
        call = options.call(mod, params)
    else:  # an input in the place of a weight is one on purpose, and none that somebody forgot
        call = options.call(with_constants(mod, params), None)

    def checked(model: CompiledModel) -> CompiledPart:
        least = QUANTISED if rounds else 0.0
        return checked_part(model, names, given, result, options, least_bound=least)

    if options.waits(deterministic=torch.are_deterministic_algorithms_enabled()):
        return checked(tuned(call))
    model, later = begin_tune(call)
    part = checked(model)
    return part if later is None else _ImprovingPart(part, later, checked)


class _ImprovingPart(torch.nn.Module):
    """A part of a first model, until the finished one is there.

    A call that finds the process ended has the finished model loaded and checked on a thread of its
    own, which takes about a second; the calls meanwhile run the first model. ``checked`` makes a
    part of a model, and raises a :class:`~tvm_ios.errors.ModelError` if it gives other values.
    """

    def __init__(
        self,
        part: CompiledPart,
        later: LaterModel,
        checked: Callable[[CompiledModel], CompiledPart],
    ) -> None:
        super().__init__()
        self.part = part
        self._later: LaterModel | None = later
        self._checked: Callable[[CompiledModel], CompiledPart] | None = checked

    def forward(self, *tensors: torch.Tensor) -> Any:
        """New tensors with the results of the better part that is there."""
        later = self._later
        if later is not None and later.has_ended:
            # Not a daemon: one that holds memory of TVM must not be cut off by the program's end.
            self._later = None
            Thread(target=self._take, args=(later,), name="tvm-ios later").start()
        return self.part(*tensors)

    def _take(self, later: LaterModel) -> None:
        try:
            model = later.model()
            if model is not None and self._checked is not None:
                self.part = self._checked(model)
        except TvmIosError as error:
            _LOG.warning("tvm_ios goes on with the first model of a part: %s", error)
        else:
            _LOG.info("tvm_ios has the finished model of a part")
        self._checked = None  # with the tensors that it was checked on
