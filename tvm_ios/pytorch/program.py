"""A captured graph as a function, compiled for the sizes and weights of its calls."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions
from torch.utils import _pytree as pytree

from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.later.begun_call import begin_tune
from tvm_ios.driver.tune import tuned
from tvm_ios.errors import ModelError
from tvm_ios.pytorch.agreement import QUANTISED, disagreement
from tvm_ios.pytorch.captured import NUMBERS, CapturedGraph
from tvm_ios.pytorch.improving import ImprovingPart
from tvm_ios.pytorch.options import BackendOptions
from tvm_ios.pytorch.part import CompiledPart
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

__all__ = ["GraphProgram"]

_LOG = logging.getLogger(__name__)
_PREFIX = "tvm_ios_part_"


class GraphProgram:
    """A graph of torch as a function that is compiled for the present sizes and weights.

    It is compiled at once for its example inputs, and again when sizes or weights change. A weight
    that changes for the second time is state, and an input from then on.
    """

    def __init__(self, graph: CapturedGraph, options: BackendOptions) -> None:
        self._graph = graph
        self._options = options
        self._compiled: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._weights: dict[int, tuple[int, int]] = {}
        """State of the weights in the last call, by their places."""
        self._changed: set[int] = set()
        self._torchs = False
        """True if the graph is left to torch, which depends neither on sizes nor on weights."""
        self._choosing = Lock()
        """Lock for comparing weights and compiling, one thread at a time."""
        self._for(graph.example_inputs)

    def __call__(self, *arguments: Any) -> Any:
        """Result of the graph for torch's arguments."""
        with self._choosing:
            run = self._for(arguments)
        return run(*arguments)

    def _for(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        if self._torchs:
            return self._graph.module
        self._forget_other_weights(arguments)
        sizes = tuple(int(arguments[place]) for place in self._graph.sizes)
        run = self._compiled.get(sizes)
        if run is None:
            try:
                run = _compiled(self._graph, arguments, self._options)
            except ModelError as error:
                # torch adds where it was, in lines of its own.
                reason = str(error).partition("\n")[0]
                _LOG.warning("tvm_ios leaves a graph to torch: %s", reason)
                self._torchs = True
                return self._graph.module
            self._compiled[sizes] = run
        return run

    def _forget_other_weights(self, arguments: tuple[Any, ...]) -> None:
        """Drop code compiled with other weights than the present ones: they are constants of it."""
        weights = {place: _state(arguments[place]) for place in self._graph.weights}
        if weights == self._weights:
            return
        if self._weights:
            changed = {place for place in weights if self._weights[place] != weights[place]}
            again = changed & self._changed
            _LOG.warning(
                "tvm_ios compiles a graph again, since weights have changed%s",
                f"; {len(again)} of them did before, and are inputs now" if again else "",
            )
            self._compiled.clear()
            self._changed |= changed
            self._graph = self._graph.with_tensors(again)
        self._weights = {place: weights[place] for place in self._graph.weights}


def _state(weight: torch.Tensor) -> tuple[int, int]:
    """Address of a weight and its number of writes, which inference mode does not count."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version  # noqa: SLF001


def _compiled(
    graph: CapturedGraph, arguments: tuple[Any, ...], options: BackendOptions
) -> Callable[..., Any]:
    """Graph for given sizes and weights, with its parts compiled."""
    # Looking at it runs it, and it may draw numbers, or write: inference mode would not count that.
    with torch.random.fork_rng(devices=[]), torch.inference_mode(mode=False), torch.no_grad():
        fused = _with_parts(graph, arguments, options)
    return lambda *given: fused(*[given[place] for place in graph.tensors])


def _with_parts(
    graph: CapturedGraph, arguments: tuple[Any, ...], options: BackendOptions
) -> torch.nn.Module:
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
) -> CompiledPart | ImprovingPart:
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
        part = CompiledPart(model, names, result)
        with torch.no_grad():
            found = pytree.tree_leaves(part(*given))
        wanted, inputs = pytree.tree_leaves(result), pytree.tree_leaves(given)
        low = model.schedule.low is not None
        bound = options.chosen.precision.max_relative_error if low else 0.0
        bound = max(bound, QUANTISED) if rounds else bound
        if difference := disagreement(found, wanted, inputs, max_relative_error=bound):
            allowed = f" in bfloat16 by more than max_relative_error={bound:g}" if low else ""
            raise ModelError(
                f"compiled, it computes something else than torch: {difference}{allowed}"
            )
        return part

    if options.waits(deterministic=torch.are_deterministic_algorithms_enabled()):
        return checked(tuned(call))
    model, later = begin_tune(call)
    part = checked(model)
    return part if later is None else ImprovingPart(part, later, checked)
