"""PyTorch: the network rebuilt as straight-line code, eager or compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from tvm_ios_lab.peers.network import Case, Floats, Node, Operator
from tvm_ios_lab.peers.peer import Contestant, Peer

__all__ = ["TorchRunner", "make", "torch_module"]

_IMAGE = 4
"""Axes of a batch of images, and of a convolution's weight for them."""
_LAST = {_IMAGE: torch.channels_last, _IMAGE + 1: torch.channels_last_3d}
"""Memory formats of tensors whose channels come last, by their number of axes."""


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
        """Output of the last run; nothing has run before :meth:`run`."""
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
            for parameter in module.parameters():
                parameter.data = _channels_last(parameter.data)
            return TorchRunner(module, _channels_last(image))
        case _:
            return TorchRunner(module, image)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=_LAST.get(tensor.dim(), torch.preserve_format))


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
    operands = [values[name] for name in (*node.inputs, node.weight, node.bias) if name]
    window: dict[str, Any] = {"stride": node.strides, "padding": node.padding}
    pool: dict[str, Any] = {**window, "kernel_size": node.kernel, "ceil_mode": node.round_up}
    match node.operator:
        case Operator.CONVOLUTION:
            options = {**window, "groups": node.groups}
            images = len(node.shape) == _IMAGE
            convolve = functional.conv2d if images else functional.conv3d
            return graph.call_function(convolve, (*operands,), options)
        case Operator.TRANSPOSED_CONVOLUTION:
            return graph.call_function(functional.conv_transpose2d, (*operands,), window)
        case Operator.LAYER_NORM:
            features = node.shape[-1:]
            operand, weight, bias = operands
            return graph.call_function(
                functional.layer_norm, (operand, features, weight, bias, node.epsilon)
            )
        case Operator.CONCATENATE:
            return graph.call_function(torch.cat, (operands, 1))
        case Operator.FLATTEN:
            return graph.call_function(torch.flatten, (*operands, 1))
        case Operator.RESHAPE:
            return graph.call_function(torch.reshape, (*operands, node.shape))
        case Operator.MAX_POOL:
            return graph.call_function(functional.max_pool2d, (*operands,), pool)
        case Operator.AVERAGE_POOL:
            options = {**pool, "count_include_pad": True}
            return graph.call_function(functional.avg_pool2d, (*operands,), options)
        case Operator.GLOBAL_AVERAGE_POOL:
            images = len(node.shape) == _IMAGE
            pools = functional.adaptive_avg_pool2d, functional.adaptive_avg_pool3d
            return graph.call_function(pools[not images], (*operands, 1))
        case Operator.SOFTMAX:
            return graph.call_function(torch.softmax, (*operands, -1))
        case Operator.ATTENTION:
            return graph.call_function(_attention, (*operands, node.tokens, node.heads))
        case _:
            return graph.call_function(_PLAIN[node.operator], (*operands,))


def _scale_shift(data: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(shift, data, scale)


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tokens: int, heads: int
) -> torch.Tensor:
    rows, features = query.shape
    split = (rows // tokens, tokens, heads, features // heads)
    query, key, value = (each.view(split).transpose(1, 2) for each in (query, key, value))
    read = functional.scaled_dot_product_attention(query, key, value)
    return read.transpose(1, 2).reshape(rows, features)


_PLAIN: Mapping[Operator, Callable[..., torch.Tensor]] = {
    Operator.ADD: torch.add,
    Operator.DENSE: functional.linear,
    Operator.EMBEDDING: functional.embedding,
    Operator.GELU: functional.gelu,
    Operator.HARD_SIGMOID: functional.hardsigmoid,
    Operator.HARD_SWISH: functional.hardswish,
    Operator.MULTIPLY: torch.mul,
    Operator.RELU: functional.relu,
    Operator.RELU6: functional.relu6,
    Operator.SCALE_SHIFT: _scale_shift,
    Operator.TANH: torch.tanh,
}
"""Functions that take what the node reads, and then its weight and bias."""
