"""Copies of a ``relay.build`` factory with another graph: with a plan or with other names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

__all__ = ["with_graph"]


def with_graph(
    factory: GraphExecutorFactoryModule, graph: Mapping[str, Any], params: Mapping[str, Any]
) -> GraphExecutorFactoryModule:
    """A copy of a factory with another graph (parsed JSON) and the parameters of that graph."""
    # The class is Relay's; only relay/ imports that.
    return type(factory)(
        factory.ir_mod,
        factory.target,
        factory.executor,
        json.dumps(graph),
        factory.get_lib(),
        factory.libmod_name,
        params,
        factory.function_metadata,
    )
