"""Copies of a ``relay.build`` factory with another graph or another library of kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tvm

if TYPE_CHECKING:
    from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

__all__ = ["with_graph", "with_library"]


def with_graph(
    factory: GraphExecutorFactoryModule, graph: Mapping[str, Any], params: Mapping[str, Any]
) -> GraphExecutorFactoryModule:
    """A copy of a factory with another graph (parsed JSON) and the parameters of that graph."""
    return _copy(factory, json.dumps(graph), factory.get_lib(), params)


def with_library(
    factory: GraphExecutorFactoryModule, library: tvm.runtime.Module, params: Mapping[str, Any]
) -> GraphExecutorFactoryModule:
    """A copy of a factory with a library that has its kernels and more, and more parameters."""
    return _copy(factory, factory.get_graph_json(), library, params)


def _copy(
    factory: GraphExecutorFactoryModule,
    graph_json: str,
    library: tvm.runtime.Module,
    params: Mapping[str, Any],
) -> GraphExecutorFactoryModule:
    # The class is Relay's; only relay/ imports that.
    return type(factory)(
        factory.ir_mod,
        factory.target,
        factory.executor,
        graph_json,
        library,
        factory.libmod_name,
        params,
        factory.function_metadata,
    )
