"""PyTorch: the network rebuilt as straight-line code, eager or compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from benchmarks.peers.network import Case, Floats, Node, Operator
from benchmarks.peers.peer import Contestant, Peer

__all__ = ["TorchRunner", "make", "torch_module"]


class TorchRunner:
    """A module and its input."""

    def __init__(self, module: Callable[[torch.Tensor], torch.Tensor], image: torch.Tensor) -> None:
        self._module = module
        self._image = image
        self._output: torch.Tensor | None = None

    def run(self) -> None:
        """Run the network once."""
        with torch.inference_mode():
            self._output = self._module(self._image)

    def output(self) -> Floats:
        """What the last run made; nothing has run before :meth:`run`."""
        if self._output is None:
            raise RuntimeError("no run has made an output; call run() first")
        output: Floats = self._output.contiguous().numpy().copy()
        return output


def make(contestant: Contestant, case: Case, folder: Path) -> TorchRunner:
    """Rebuild the network; the folder is not read."""
    del folder
    torch.set_num_threads(contestant.threads)
    module = torch_module(case)
    image = torch.from_numpy(case.input)
    match contestant.peer:
        case Peer.TORCH_COMPILE:
            # Frozen weights are constants, which the compiler lays out for its convolutions.
            compiled = torch.compile(module, options={"freezing": True})
            return TorchRunner(compiled, image)
        case Peer.TORCH_CHANNELS_LAST:
            module = module.to(memory_format=torch.channels_last)
            return TorchRunner(module, image.to(memory_format=torch.channels_last))
        case _:
            return TorchRunner(module, image)


def torch_module(case: Case) -> fx.GraphModule:
    """The network as a module of generated code that frees each tensor after its last use."""
    root = torch.nn.Module()
    graph = fx.Graph()
    values = {case.network.input: graph.placeholder("image")}
    for number, (name, value) in enumerate(case.weights.items()):
        parameter = torch.nn.Parameter(torch.from_numpy(value), requires_grad=False)
        root.register_parameter(f"w{number}", parameter)
        values[name] = graph.get_attr(f"w{number}")
    for node in case.network.nodes:
        values[node.output] = _call(graph, node, values)
    graph.output(values[case.network.output])
    return fx.GraphModule(root, graph).eval()


def _call(graph: fx.Graph, node: Node, values: dict[str, fx.Node]) -> fx.Node:
    operands = tuple(values[name] for name in node.inputs)
    window: dict[str, Any] = {
        "kernel_size": node.kernel,
        "stride": node.strides,
        "padding": node.padding,
    }
    match node.operator:
        case Operator.CONVOLUTION:
            return graph.call_function(
                functional.conv2d,
                (*operands, values[node.weight], values[node.bias]),
                {"stride": node.strides, "padding": node.padding, "groups": node.groups},
            )
        case Operator.RELU:
            return graph.call_function(functional.relu, operands)
        case Operator.ADD:
            return graph.call_function(torch.add, operands)
        case Operator.CONCATENATE:
            return graph.call_function(torch.cat, (operands, 1))
        case Operator.MAX_POOL:
            return graph.call_function(functional.max_pool2d, operands, window)
        case Operator.AVERAGE_POOL:
            window["count_include_pad"] = True
            return graph.call_function(functional.avg_pool2d, operands, window)
        case Operator.GLOBAL_AVERAGE_POOL:
            return graph.call_function(functional.adaptive_avg_pool2d, (*operands, 1))
