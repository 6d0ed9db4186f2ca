"""A graph of ONNX that grows node by node, of values that are there already or of new inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["FIRST_OPSET", "LAST_OPSET", "RECIPES", "Drawing", "Undrawable", "described", "recipe"]

FIRST_OPSET, LAST_OPSET = 7, 23


class Undrawable(Exception):  # noqa: N818 - it is no error, but another draw
    """An operator cannot be drawn here: its opset is older, or no value has the shape it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A function that adds a node of an operator with random attributes, and others it needs."""

    add: Callable[[Drawing], None]
    since: int
    """First opset in which the operator can be drawn."""
    until: int
    """Last opset in which the operator can be drawn."""


RECIPES: dict[str, Recipe] = {}
"""Recipes by operator."""


def recipe(
    *op_types: str, since: int = FIRST_OPSET, until: int = LAST_OPSET
) -> Callable[[Callable[[Drawing], None]], Callable[[Drawing], None]]:
    """Have a function add nodes of these operators, in some opsets."""

    def add(function: Callable[[Drawing], None]) -> Callable[[Drawing], None]:
        made = Recipe(add=function, since=since, until=until)
        RECIPES.update(dict.fromkeys(op_types, made))
        return function

    return add


class Drawing:
    """A model while it is drawn."""

    def __init__(self, chance: random.Random, opset: int) -> None:
        self.chance = chance
        self.numbers = np.random.default_rng(chance.getrandbits(32))
        self.opset = opset
        self.op_type = ""
        """The operator that is drawn now."""
        self.inputs: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.known: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        """Shape and type of each value so far."""
        self.captured: set[str] = set()
        """Values that graphs inside of nodes read."""
        self.hidden: set[str] = set()
        """Values that may be missing, which a model must not give."""

    def draw(self, op_type: str) -> None:
        """Add nodes of an operator by its recipe."""
        recipe = RECIPES[op_type]
        if not recipe.since <= self.opset <= recipe.until:
            raise Undrawable
        self.op_type = op_type
        recipe.add(self)

    def pick(self, *choices: Any) -> Any:
        """A choice of several, each as likely."""
        return self.chance.choice(choices)

    def yes(self) -> bool:
        """A choice of two."""
        return self.chance.random() < 0.5

    def whole(self, low: int, high: int) -> int:
        """A number between two, which are possible as well."""
        return self.chance.randint(low, high)

    def shape(self, rank: int | None = None, most: int = 4) -> tuple[int, ...]:
        """Extents that are small."""
        rank = self.whole(0, 4) if rank is None else rank
        return tuple(self.whole(1, most) for _ in range(rank))

    def numbers_of(
        self, shape: Sequence[int], dtype: str = "float32", low: float = -4, high: float = 4
    ) -> np.ndarray:
        """Array of random numbers, of which whole ones are never zero: divisors must not be."""
        if dtype == "bool":
            return self.numbers.random(shape) < 0.5
        if dtype.startswith(("int", "uint")):
            least = 1 if dtype.startswith("u") else int(low)
            made = np.asarray(self.numbers.integers(least, int(high) + 1, shape))
            return np.where(made == 0, 1, made).astype(dtype)
        return np.asarray(self.numbers.uniform(low, high, shape)).astype(dtype)

    def fresh(self, shape: Sequence[int], dtype: str = "float32", **bounds: float) -> str:
        """A new input of the model."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.numbers_of(shape, dtype, **bounds)
        self.known[name] = (self.inputs[name].shape, self.inputs[name].dtype)
        return name

    def const(self, value: Any, dtype: str = "int64") -> str:
        """A new constant of the model."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        self.known[name] = (self.constants[name].shape, self.constants[name].dtype)
        return name

    def told(self, shape: Sequence[int], dtype: str = "float32", **bounds: float) -> str:
        """A new constant, or a new input."""
        if self.yes():
            return self.const(self.numbers_of(shape, dtype, **bounds), dtype)
        return self.fresh(shape, dtype, **bounds)

    def value(
        self,
        *dtypes: str,
        rank: int | Sequence[int] | None = None,
        where: Callable[[tuple[int, ...]], bool] = lambda shape: True,
    ) -> str:
        """A value of one of some types and ranks: one that is there, or a new input."""
        dtypes = dtypes or ("float32",)
        ranks = range(5) if rank is None else [rank] if isinstance(rank, int) else rank
        found = [
            name
            for name, (shape, dtype) in self.known.items()
            if str(dtype) in dtypes and len(shape) in ranks and where(shape)
            if name not in self.constants
        ]
        if found and self.chance.random() < 0.7:
            return self.pick(*found)
        for _ in range(40):
            shape = self.shape(self.pick(*ranks))
            if where(shape):
                return self.fresh(shape, self.pick(*dtypes))
        raise Undrawable

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Extents of a value."""
        return self.known[name][0]

    def dtype_of(self, name: str) -> str:
        """Data type of a value."""
        return str(self.known[name][1])

    def axis(self, rank: int) -> int:
        """An axis, which may count from the end."""
        if not rank:
            raise Undrawable
        return self.whole(-rank, rank - 1)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another one."""
        kept = shape[self.whole(0, len(shape)) :]
        return tuple(1 if self.chance.random() < 0.3 else extent for extent in kept)

    def add(
        self, *inputs: str, outputs: int = 1, op_type: str = "", **attributes: Any
    ) -> list[str]:
        """Names of the outputs of a new node."""
        made = [f"y{len(self.nodes)}_{place}" for place in range(outputs)]
        node = helper.make_node(
            op_type or self.op_type, list(inputs), made, name=f"n{len(self.nodes)}", **attributes
        )
        self.nodes.append(node)
        model = onnx.shape_inference.infer_shapes(self.model(made), data_prop=True)
        for value in model.graph.output:
            kind = value.type.tensor_type
            sizes = tuple(dim.dim_value for dim in kind.shape.dim)
            if kind.elem_type and all(sizes) and np.prod(sizes) < 4000:
                self.known[value.name] = (sizes, helper.tensor_dtype_to_np_dtype(kind.elem_type))
        return made

    def model(
        self, outputs: Sequence[str], values: Mapping[str, np.ndarray] | None = None
    ) -> onnx.ModelProto:
        """The model so far, with some of its values as outputs, typed as far as they are known."""
        given = [described(name, value) for name, value in self.inputs.items()]
        weights = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        known = values or {}
        made = [
            described(name, known[name]) if name in known else onnx.ValueInfoProto(name=name)
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "drawn", given, made, weights)
        sets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10)


def described(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    """A value's name and type."""
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
    )
