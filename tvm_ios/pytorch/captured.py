"""A graph as torch captured it, whose inputs are weights, sizes, and tensors of the caller."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import fx

__all__ = ["NUMBERS", "CapturedGraph"]

NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
"""Types of values in a graph besides tensors."""


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """A graph of torch with the places of its inputs, by their roles."""

    module: fx.GraphModule
    example_inputs: tuple[Any, ...]
    weights: tuple[int, ...]
    """Places of parameters and buffers, which are the same tensors in every call."""
    sizes: tuple[int, ...]
    """Places of numbers, in a graph that was captured for more than one shape."""
    tensors: tuple[int, ...]
    """Places of the caller's tensors."""

    @classmethod
    def of(cls, module: fx.GraphModule, example_inputs: Sequence[Any]) -> Self:
        """Captured graph whose inputs are told apart by torch's notes."""
        weights, sizes, tensors = [], [], []
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        # A symbol that is made an integer is this one for good, and Dynamo captures each size anew.
        examples = [_without_symbol(each) for each in example_inputs]
        for place, (node, example) in enumerate(zip(inputs, examples, strict=True)):
            if not isinstance(example, torch.Tensor):
                sizes.append(place)
            elif _is_static(node, example):
                weights.append(place)
            else:
                tensors.append(place)
        return cls(module, tuple(examples), tuple(weights), tuple(sizes), tuple(tensors))

    def why_torch(self, *, gradients: bool) -> str | None:
        """Reason why the whole graph is left to torch; None where it is not."""
        given = [self.example_inputs[place] for place in (*self.weights, *self.tensors)]
        if gradients and any(each.requires_grad for each in given):
            return "gradients are recorded; call the model under torch.inference_mode()"
        if away := [each for each in given if each.device.type != "cpu"]:
            return f"a tensor is on {away[0].device}, and only those on the CPU are taken"
        if odd := [each for each in given if each.layout != torch.strided or each.is_complex()]:
            return f"a tensor is {odd[0].layout} of {odd[0].dtype}; only dense real ones are taken"
        return None

    def bound(self, arguments: Sequence[Any]) -> fx.GraphModule:
        """Graph for given sizes, as a module of the caller's tensors, with copied weights.

        Weights are copied since examining a graph runs it, which may write: :meth:`lend_weights`.
        """
        graph = fx.Graph()
        module = copy(self.module)  # with the modules and tensors that nodes name
        inputs = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        names = {inputs[place]: _weight(place) for place in self.weights}
        for place in self.weights:
            module.register_buffer(names[inputs[place]], arguments[place].detach().clone())
        known: dict[fx.Node, Any] = {inputs[place]: int(arguments[place]) for place in self.sizes}

        def given(node: fx.Node) -> Any:
            # Each use reads a weight by itself, so that no part of the graph hands it to another.
            return graph.get_attr(names[node]) if node in names else known[node]

        for node in self.module.graph.nodes:
            if node.op == "output":
                graph.output(fx.map_arg(node.args[0], given))
            elif node not in names and node not in known:
                known[node] = graph.node_copy(node, given)
                if _is_arithmetic_of_sizes(known[node]):
                    folded = known[node]
                    known[node] = folded.target(*folded.args, **folded.kwargs)
                    graph.erase_node(folded)
        module.graph = graph
        return module

    def with_tensors(self, places: Collection[int]) -> Self:
        """Captured graph in which weights at some places count as tensors of the caller."""
        return replace(
            self,
            weights=tuple(place for place in self.weights if place not in places),
            tensors=tuple(sorted({*self.tensors, *places})),
        )

    def lend_weights(self, module: fx.GraphModule, arguments: Sequence[Any]) -> None:
        """Put the weights themselves in the place of their copies."""
        for place in self.weights:
            setattr(module, _weight(place), arguments[place].detach())


def _without_symbol(example: Any) -> Any:
    return example.node.hint if isinstance(example, torch.SymInt) else example


def _weight(place: int) -> str:
    return f"weight_{place}"


def _is_arithmetic_of_sizes(node: fx.Node) -> bool:
    number = isinstance(node.meta.get("example_value"), NUMBERS)
    return number and node.op == "call_function" and not node.all_input_nodes


def _is_static(node: fx.Node, example: torch.Tensor) -> bool:
    noted = node.meta.get("tensor_dict") or {}
    return isinstance(example, torch.nn.Parameter) or "_dynamo_static_input_type" in noted
