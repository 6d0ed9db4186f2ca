"""Calls of a graph that TVM can take, found by tracing each one on real tensors."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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

__all__ = ["gives_views", "obstacles_by_call", "takeable_parts"]

Part = list[fx.Node]
VIEW = "tvm_ios_view"
"""Key of a node's note: True if its result lies in one of its arguments."""


def takeable_parts(module: fx.GraphModule, obstacles: Mapping[fx.Node, str]) -> list[Part]:
    """Largest groups of calls without obstacles that can run as one, each in order of the graph."""
    if not obstacles:
        return [[node for node in module.graph.nodes if node.op not in ("placeholder", "output")]]
    # Its own count of calls is one of functions: methods would be no calls.
    partitioner = CapabilityBasedPartitioner(
        module, _Takeable(obstacles), allows_single_node_partition=True
    )
    found = [part.nodes for part in partitioner.propose_partitions()]
    order = {node: place for place, node in enumerate(module.graph.nodes)}
    return [sorted(part, key=order.__getitem__) for part in found if _computes(part)]


def obstacles_by_call(module: fx.GraphModule, tensors: tuple[Any, ...]) -> dict[fx.Node, str]:
    """Reasons that keep TVM from calls of a graph, by call; empty if it takes all.

    Calls that change in place what nobody else reads are replaced by calls that do not, since parts
    of a graph run in an order of their own. Views of arguments or of other results are left to
    torch, as callers can tell them from copies and parts write to new tensors.
    """
    probe = _Probe(module, [*tensors, *module.state_dict().values()])
    with torch.no_grad():
        probe.run(*tensors)
    return probe.obstacles


def gives_views(module: fx.GraphModule, tensors: tuple[Any, ...], result: Any) -> bool:
    """True if a part of a graph's result lies in an argument, in a weight, or in another part."""
    results = torch.utils._pytree.tree_leaves(result)  # noqa: SLF001 - as fx
    return bool(_shared(results, [*tensors, *module.state_dict().values()]))


def _computes(part: Collection[fx.Node]) -> bool:
    """True if several calls do more than view values in another way."""
    return sum(node.op.startswith("call_") and not node.meta.get(VIEW) for node in part) > 1


class _Takeable(OperatorSupportBase):
    def __init__(self, obstacles: Mapping[fx.Node, str]) -> None:
        self._obstacles = obstacles

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:  # noqa: ARG002 - torch's signature
        return node.op not in ("placeholder", "output") and node not in self._obstacles


class _Probe(fx.Interpreter):
    """Interpreter that runs a graph, and asks for every call whether TVM could take it."""

    def __init__(self, module: fx.GraphModule, given: list[Any]) -> None:
        super().__init__(module)
        self._given = given
        self.obstacles: dict[fx.Node, str] = {}
        self._fresh: set[fx.Node] = set()
        self._lies_in: dict[fx.Node, list[fx.Node]] = {}
        """Arguments of each node that its result shares memory with."""

    def run_node(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        _write_elsewhere(n, args, self._fresh)
        # The call may have got other keywords just now.
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        leaves, shape = torch.utils._pytree.tree_flatten((args, kwargs))  # noqa: SLF001 - as fx
        before = _versions(leaves)
        result = super().run_node(n)
        if before != _versions(leaves):
            raise ModelError(f"{n.name} changes a tensor in place that others read")
        self._lies_in[n] = [each for each in n.all_input_nodes if self._shares(each, result)]
        if n.op in ("call_function", "call_method", "call_module"):
            if obstacle := self._obstacle(n, leaves, shape, result):
                self.obstacles[n] = obstacle
            if not self._lies_in[n]:
                self._fresh.add(n)
            n.meta[VIEW] = bool(self._lies_in[n])
        if n.op == "get_attr" and not isinstance(result, torch.Tensor):
            self.obstacles[n] = "a graph of its own, as a branch is"
        if n.op == "output":
            self._leave_views(n.all_input_nodes)
        return result

    def _shares(self, node: fx.Node, result: Any) -> bool:
        return not _storages(self.env[node]).isdisjoint(_storages(result))

    def _leave_views(self, results: list[fx.Node]) -> None:
        """Note the calls that give a view a caller sees, back to the call that computed it."""
        shared = _shared([self.env[each] for each in results], self._given)
        views = [results[place] for place in shared]
        while views:
            node = views.pop()
            if self._lies_in[node] or node.op == "get_attr":
                self.obstacles.setdefault(node, "a view that is seen outside")
                views += self._lies_in[node]

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
    operator.iand: operator.and_,
    operator.ilshift: operator.lshift,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.ior: operator.or_,
    operator.irshift: operator.rshift,
    operator.itruediv: operator.truediv,
    operator.ixor: operator.xor,
}


def _write_elsewhere(node: fx.Node, args: Sequence[Any], fresh: Collection[fx.Node]) -> None:
    """Make a call that overwrites its first argument, which nobody else reads, write elsewhere."""
    target = node.args[0] if node.args else None
    if not isinstance(target, fx.Node) or target not in fresh or len(target.users) > 1:
        return
    if node.kwargs.get("inplace") is True:
        node.kwargs = {**node.kwargs, "inplace": False}
    # In place the result keeps its data type, whatever is added.
    functional = _FUNCTIONAL.get(node.target) if node.op == "call_function" else None
    if functional is not None and torch.result_type(*args) == args[0].dtype:
        node.target = functional


def _versions(leaves: list[Any]) -> list[int]:
    """Number of torch's counted changes in place of each tensor."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [each._version for each in tensors if not each.is_inference()]  # noqa: SLF001


def _shared(results: Sequence[Any], given: Sequence[Any]) -> list[int]:
    """Places of results that share memory with an argument, or with another result."""
    owners = Counter(storage for each in (given, *results) for storage in _storages(each))
    return [
        place
        for place, each in enumerate(results)
        if any(owners[storage] > 1 for storage in _storages(each))
    ]


def _storages(value: Any) -> set[int]:
    """Addresses of the tensors in a value; those without elements have none."""
    leaves = torch.utils._pytree.tree_leaves(value)  # noqa: SLF001 - as fx
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return {each.untyped_storage().data_ptr() for each in tensors} - {0}


class _Call(torch.nn.Module):
    """A call of a graph as a module of its tensors."""

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
