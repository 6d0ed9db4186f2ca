"""Small networks in Relax, and what TVM's virtual machine makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import spec

__all__ = ["TARGET", "Network", "answers", "inception_block", "random_network", "squeezenet"]

TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}
"""Target that every x86-64 machine runs, with the same bits."""


class Network:
    """Module with ``main`` under construction; constants are drawn from a seed."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.builder = relax.BlockBuilder()
        self.drawn = np.random.default_rng(seed)
        self.x = relax.Var("x", relax.TensorType(shape, "float32"))
        self.shape = shape

    def build(self, body: Callable[[Network], Any]) -> tvm.IRModule:
        """The module whose result the body gives."""
        with self.builder.function("main", [self.x]):
            with self.builder.dataflow():
                result = self.builder.emit_output(body(self))
            self.builder.emit_func_output(result)
        return self.builder.get()

    def emit(self, expression: Any) -> relax.Var:
        """Variable of an expression."""
        return self.builder.emit(expression)

    def constant(self, *shape: int) -> Any:
        """Constant with values around 0."""
        return relax.const(self.drawn.standard_normal(shape).astype("float32"))

    def conv(self, data: relax.Var, channels: int, kernel: int, **options: Any) -> relax.Var:
        """Convolution that keeps the size, with bias and ReLU."""
        weight = self.constant(channels, int(data.ty.shape[1]), kernel, kernel)
        padding = kernel // 2
        made = self.emit(relax.op.nn.conv2d(data, weight, padding=padding, **options))
        biased = self.emit(relax.op.add(made, self.constant(1, channels, 1, 1)))
        return self.emit(relax.op.nn.relu(biased))

    def value(self) -> np.ndarray:
        """Values for the input."""
        return np.random.default_rng(7).standard_normal(self.shape).astype("float32")


def inception_block() -> tuple[tvm.IRModule, np.ndarray]:
    """Four branches, of which one pools, and their concatenation."""
    network = Network(1, 8, 12, 12)

    def body(net: Network) -> relax.Var:
        pooled = net.emit(relax.op.nn.max_pool2d(net.x, (3, 3), padding=1))
        branches = [
            net.conv(net.x, 4, 1),
            net.conv(net.conv(net.x, 4, 1), 8, 3),
            net.conv(net.conv(net.conv(net.x, 4, 1), 6, 3), 6, 3),
            net.conv(pooled, 4, 1),
        ]
        return net.emit(relax.op.concat(branches, axis=1))

    return network.build(body), network.value()


class _Fire(nn.Module):
    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        self.squeeze = nn.Conv2D(channels, squeezed, 1)
        self.one = nn.Conv2D(squeezed, expanded, 1)
        self.three = nn.Conv2D(squeezed, expanded, 3, padding=1)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = nn.op.relu(self.squeeze(x))
        return nn.op.concat([nn.op.relu(self.one(x)), nn.op.relu(self.three(x))], dim=1)


class _SqueezeNet(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Conv2D(3, 8, 3, stride=2)
        self.fires = nn.ModuleList([_Fire(8, 4, 8), _Fire(16, 4, 8), _Fire(16, 6, 12)])
        self.last = nn.Conv2D(24, 10, 1)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        x = nn.op.relu(self.first(x))
        for fire in self.fires:
            x = fire(x)
        x = nn.op.relu(self.last(x))
        return nn.op.softmax(nn.op.reshape(x, (1, -1)), axis=-1)


def squeezenet() -> tuple[tvm.IRModule, dict[str, np.ndarray], np.ndarray]:
    """Small SqueezeNet of TVM's own frontend, with parameters by the names of ``main``."""
    net = _SqueezeNet()
    mod, named = net.export_tvm({"main": {"x": spec.Tensor([1, 3, 17, 17], "float32")}})
    drawn = np.random.default_rng(0)
    params = {
        name: (drawn.standard_normal(parameter.shape) * 0.2).astype("float32")
        for name, parameter in named
    }
    return mod, params, drawn.standard_normal((1, 3, 17, 17)).astype("float32")


class _RandomNetwork(Network):
    """Network whose operators follow from a seed; any value may be read again."""

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        super().__init__(1, self.chooser.choice((4, 6, 8)), 8, 8, seed=seed)
        self.images = [self.x]
        self.read: set[int] = set()

    def image(self, like: relax.Var | None = None) -> relax.Var:
        """An image, perhaps of the shape of another one."""
        # Near the end of the list, so that networks are deep as well as wide.
        numbers = range(max(0, len(self.images) - 4), len(self.images))
        if like is not None:
            shape = list(like.ty.shape)
            numbers = [n for n, each in enumerate(self.images) if list(each.ty.shape) == shape]
        number = self.chooser.choice(numbers)
        self.read.add(number)
        return self.images[number]

    def result(self) -> Any:
        """What nobody has read, after a number of operators."""
        kinds = (self.convolution, self.convolution, self.joined, self.joined, self.halved)
        kinds += (self.depthwise, self.combined, self.pooled, self.centred, self.normed)
        kinds += (self.mapped, self.reshaped, *[self.siblings] * 5)
        for _ in range(self.chooser.randrange(5, 13)):
            made = self.chooser.choice(kinds)(self.image())
            # Concatenations of concatenations grow without end.
            self.images.append(self.conv(made, 4, 1) if int(made.ty.shape[1]) > 24 else made)
        outputs = [each for n, each in enumerate(self.images) if n not in self.read]
        return outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)

    def convolution(self, data: relax.Var) -> relax.Var:
        return self.conv(data, self.chooser.choice((2, 4, 6)), self.chooser.choice((1, 3)))

    def siblings(self, data: relax.Var) -> relax.Var:
        """Convolutions of one image, which may merge, joined or one by one."""
        made = [self.convolution(data) for _ in range(self.chooser.choice((2, 3)))]
        if self.chooser.randrange(2):
            return self.emit(relax.op.concat(made, axis=1))
        self.images += made[1:]
        return made[0]

    def depthwise(self, data: relax.Var) -> relax.Var:
        channels = int(data.ty.shape[1])
        weight = self.constant(channels, 1, 3, 3)
        return self.emit(relax.op.nn.conv2d(data, weight, padding=1, groups=channels))

    def joined(self, data: relax.Var) -> relax.Var:
        pieces = [data, *(self.image() for _ in range(self.chooser.choice((1, 2))))]
        return self.emit(relax.op.concat(pieces, axis=1))

    def halved(self, data: relax.Var) -> relax.Var:
        if int(data.ty.shape[1]) % 2:
            return self.mapped(data)
        halves = self.emit(relax.op.split(data, 2, axis=1))
        self.images.append(self.emit(relax.TupleGetItem(halves, 0)))
        return self.emit(relax.TupleGetItem(halves, 1))

    def combined(self, data: relax.Var) -> relax.Var:
        made = self.chooser.choice((relax.op.add, relax.op.multiply))
        return self.emit(made(data, self.image(like=data)))

    def pooled(self, data: relax.Var) -> relax.Var:
        pool = self.chooser.choice((relax.op.nn.max_pool2d, relax.op.nn.avg_pool2d))
        return self.emit(pool(data, (3, 3), padding=1))

    def centred(self, data: relax.Var) -> relax.Var:
        mean = self.emit(relax.op.mean(data, [2, 3], keepdims=True))
        return self.emit(relax.op.subtract(data, mean))

    def normed(self, data: relax.Var) -> relax.Var:
        channels = int(data.ty.shape[1])
        scale = [self.constant(channels) for _ in range(3)]
        variance = relax.const(np.linspace(0.5, 2, channels, dtype="float32"))
        made = self.emit(relax.op.nn.batch_norm(data, *scale, variance, axis=1, training=False))
        return self.emit(relax.TupleGetItem(made, 0))

    def mapped(self, data: relax.Var) -> relax.Var:
        maps = (
            relax.op.sigmoid,
            lambda each: relax.op.nn.softmax(each, axis=1),
            lambda each: relax.op.permute_dims(each, [0, 1, 3, 2]),
        )
        return self.emit(self.chooser.choice(maps)(data))

    def reshaped(self, data: relax.Var) -> relax.Var:
        shape = [int(extent) for extent in data.ty.shape]
        flat = self.emit(relax.op.reshape(data, (1, -1)))
        return self.emit(relax.op.reshape(flat, shape))


def random_network(seed: int) -> tuple[tvm.IRModule, np.ndarray]:
    """Branching network of operators that follow from a seed, and a value for it."""
    network = _RandomNetwork(seed)
    return network.build(lambda _: network.result()), network.value()


def answers(module: tvm.IRModule, value: np.ndarray) -> list[np.ndarray]:
    """What TVM's virtual machine makes of a module."""
    executable = tvm.compile(module, target=tvm.target.Target(TARGET))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(value))
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [each.numpy() for each in result]
