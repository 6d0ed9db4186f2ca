"""Which calls of a graph TVM can take, found by tracing each one by itself on real tensors."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from tvm_ios.errors import ModelError
from tvm_ios.pytorch.captured import NUMBERS
from tvm_ios.relay.frontends.torch import (
    change_in_place,
    traced,
    training_operator,
)
from tvm_ios.relay.frontends.torch_operators import missing_operators

__all__ = ["obstacles_by_call", "takeable_parts"]

Part = list[fx.Node]


def takeable_parts(module: fx.GraphModule, obstacles: Mapping[fx.Node, str]) -> list[Part]:
    """Largest groups of calls without obstacles that can run as one, each in order of the graph."""
    if not obstacles:
        return [[node for node in module.graph.nodes if node.op not in ("placeholder", "output")]]
    found = CapabilityBasedPartitioner(module, _Takeable(obstacles)).propose_partitions()
    order = {node: place for place, node in enumerate(module.graph.nodes)}
    return [sorted(part.nodes, key=order.__getitem__) for part in found]


def obstacles_by_call(module: fx.GraphModule, tensors: tuple[Any, ...]) -> dict[fx.Node, str]:
    """What keeps TVM from taking a call, for each such call of a graph; empty if it takes all.

    Calls in the graph that change in place what nobody else reads are replaced by those that do
    not, since parts of a graph run in an order of their own.

    Raises
    ------
    ModelError
        If another call changes a tensor in place, or one trains.
    """
    probe = _Probe(module)
    with torch.no_grad():
        probe.run(*tensors)
    return probe.obstacles


class _Takeable(OperatorSupportBase):
    def __init__(self, obstacles: Mapping[fx.Node, str]) -> None:
        self._obstacles = obstacles

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:  # noqa: ARG002 - torch's signature
        return node.op not in ("placeholder", "output") and node not in self._obstacles


class _Probe(fx.Interpreter):
    """Runs a graph, and asks of every call on the way whether TVM could take it."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.obstacles: dict[fx.Node, str] = {}
        self._fresh: set[fx.Node] = set()

    def run_node(self, n: fx.Node) -> Any:
        _write_elsewhere(n, self._fresh)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        leaves, shape = torch.utils._pytree.tree_flatten((args, kwargs))  # noqa: SLF001 - as fx
        before = _versions(leaves)
        result = super().run_node(n)
        if before != _versions(leaves):
            raise ModelError(f"{n.name} changes a tensor in place that others read")
        if n.op in ("call_function", "call_method", "call_module"):
            if obstacle := self._obstacle(n, leaves, shape, result):
                self.obstacles[n] = obstacle
            if not any(_share_memory(result, leaf) for leaf in leaves):
                self._fresh.add(n)
        return result

    def _obstacle(self, node: fx.Node, leaves: list[Any], shape: Any, result: Any) -> str | None:
        if isinstance(result, torch.Size) or not isinstance(result, torch.Tensor | tuple | list):
            return f"{node.name} gives a {type(result).__name__}, no tensor"
        if any(isinstance(self.env[each], NUMBERS) for each in node.all_input_nodes):
            return f"{node.name} takes a number that is computed"
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        call = _Call(self, node, (leaves, places, shape))
        try:
            trace = traced(call, tuple(leaves[place] for place in places))
        except ModelError as error:
            return str(error)
        if reason := change_in_place(trace) or training_operator(trace):
            raise ModelError(reason)
        return ", ".join(missing_operators(trace)) or None


_FUNCTIONAL = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}


def _write_elsewhere(node: fx.Node, fresh: Collection[fx.Node]) -> None:
    """Make a call that overwrites its first argument, which nobody else reads, write elsewhere."""
    target = node.args[0] if node.args else None
    if not isinstance(target, fx.Node) or target not in fresh or len(target.users) > 1:
        return
    if node.kwargs.get("inplace") is True:
        node.kwargs = {**node.kwargs, "inplace": False}
    if node.op == "call_function" and node.target in _FUNCTIONAL:
        node.target = _FUNCTIONAL[node.target]


def _versions(leaves: list[Any]) -> list[int]:
    """How often torch counted a change in place of each tensor."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [each._version for each in tensors if not each.is_inference()]  # noqa: SLF001


def _share_memory(result: Any, given: Any) -> bool:
    if isinstance(result, tuple | list):
        return any(_share_memory(each, given) for each in result)
    tensors = isinstance(result, torch.Tensor) and isinstance(given, torch.Tensor)
    return tensors and result.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()


class _Call(torch.nn.Module):
    """One call of a graph as a module of its tensors."""

    def __init__(
        self, probe: _Probe, node: fx.Node, given: tuple[list[Any], list[int], Any]
    ) -> None:
        super().__init__()
        self._perform = getattr(probe, node.op)
        self._node = node
        self._leaves, self._places, self._shape = given

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self._shape)  # noqa: SLF001
        return self._perform(self._node.target, args, kwargs)
