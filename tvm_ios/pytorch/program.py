"""A captured graph as a function, compiled for the sizes and weights of its calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import Any

import torch

from tvm_ios.errors import ModelError
from tvm_ios.pytorch.captured import CapturedGraph
from tvm_ios.pytorch.options import BackendOptions
from tvm_ios.runtime.base.tvm_names import DIALECT

__all__ = ["GraphProgram"]

_LOG = logging.getLogger(__name__)


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
        # Each imports a dialect that only one TVM has.
        dialect: Any = import_module(f"tvm_ios.pytorch.{DIALECT}_graph")
        fused = dialect.with_parts(graph, arguments, options)
    return lambda *given: fused(*[given[place] for place in graph.tensors])
