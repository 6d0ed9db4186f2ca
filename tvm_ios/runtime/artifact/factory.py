"""Kernels and parameters that an exported file is made of, as each TVM gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

__all__ = ["ExecutableFactory", "KernelFactory", "with_graph"]


class KernelFactory(Protocol):
    """Kernels that can be exported, with the values of parameters.

    ``target`` is the TVM target that they are compiled for.
    """

    target: Any

    def get_params(self) -> Mapping[str, Any]:
        """Arrays of parameters by name."""
        ...

    def export_library(self, path: str, *, fcompile: Any, addons: list[str]) -> Any:
        """Write the kernels into a shared library, with more object files."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutableFactory:
    """Kernels that ``tvm.compile`` of TVM 0.27 made, and parameters beside them."""

    executable: Any
    target: Any
    params: Mapping[str, Any]

    def get_lib(self) -> Any:
        """Kernels without parameters, which can be exported."""
        return self.executable

    def get_params(self) -> Mapping[str, Any]:
        """Arrays of parameters by name."""
        return self.params

    def export_library(self, path: str, *, fcompile: Any, addons: list[str]) -> Any:
        """Write the kernels into a shared library, with more object files."""
        return self.executable.export_library(path, fcompile=fcompile, addons=addons)


def with_graph(
    factory: GraphExecutorFactoryModule, graph: Mapping[str, Any], params: Mapping[str, Any]
) -> GraphExecutorFactoryModule:
    """A copy of a ``relay.build`` factory with another graph (parsed JSON) and its parameters."""
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
