"""Relay graphs that know their answers: each expression is computed in NumPy as it is made.

Floats are computed in float64, once exactly and twice *shaken*: with an error of a few units in the
last place of their type after each operator (Vignes' CESTAC). How far the shaken ones went from the
exact one says what a compiled graph may differ, and an integer that they do not agree on hangs by a
hair: such an operator is refused, and the graph goes on with another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relay

__all__ = ["MOST_ELEMENTS", "DrawnGraph", "GraphBuilder", "RefusedError", "Value"]

LARGEST = {"float32": 64.0, "float16": 64.0, "int8": 127, "int32": 10**6, "int64": 10**6, "bool": 1}
"""Larger values are refused: powers of float16 end soon, and int8 goes round."""
MOST_ELEMENTS = 16384
SHAKEN = {"float32": 16 * 2.0**-23, "float16": 8 * 2.0**-10}
"""Error of one operator against its largest value; sums of products are hundreds long."""
LEEWAY = 8
"""An answer may be so much further off than the shaken ones were."""


class RefusedError(Exception):
    """An operator does not fit what it was given."""


@dataclass(frozen=True)
class Value:
    """An expression and what it computes."""

    expr: relay.Expr
    dtype: str
    samples: tuple[np.ndarray, ...]
    """The exact value, then the shaken ones; of floats in float64, of integers in int64."""

    @property
    def array(self) -> np.ndarray:
        """The exact value."""
        return self.samples[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.array.shape)

    @property
    def is_float(self) -> bool:
        """True for float32 and float16."""
        return self.dtype in SHAKEN

    @property
    def tolerance(self) -> float:
        """How far off an answer may be; 0 for integers and truth values."""
        if not self.is_float or not self.array.size:
            return 0.0
        apart = max(float(np.abs(other - self.array).max()) for other in self.samples[1:])
        return LEEWAY * apart + 2 * SHAKEN[self.dtype] * max(1.0, float(np.abs(self.array).max()))


@dataclass(frozen=True)
class DrawnGraph:
    """A module, what it is fed, and what it answers; prints itself when a test fails."""

    module: tvm.IRModule
    params: dict[str, np.ndarray]
    inputs: dict[str, np.ndarray]
    outputs: tuple[Value, ...]

    def __repr__(self) -> str:
        """The Relay text, which ``relay.parse`` reads, and what there is beside it."""
        fed = {name: f"{array.dtype}{array.shape}" for name, array in self.inputs.items()}
        return f"inputs: {fed}\n{self.module.astext(show_meta_data=False)}"

    def assert_answers(self, answers: Sequence[np.ndarray]) -> None:
        """Compare with what NumPy computes."""
        assert len(answers) == len(self.outputs)
        for number, (output, answer) in enumerate(zip(self.outputs, answers, strict=True)):
            assert (str(answer.dtype), answer.shape) == (output.dtype, output.shape), number
            np.testing.assert_allclose(
                answer.astype("float64"),
                output.array.astype("float64"),
                rtol=0,
                atol=output.tolerance,
                err_msg=f"output {number}",
            )


@dataclass
class GraphBuilder:
    """Makes a graph operator by operator.

    Parameters
    ----------
    chooser
        Decides; one that Hypothesis gave shrinks.
    """

    chooser: random.Random
    values: list[Value] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    params: dict[str, np.ndarray] = field(default_factory=dict)
    _numbers: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _constants: list[Value] = field(default_factory=list)

    def input(self, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A new input of the graph."""
        name = f"in{len(self.inputs)}"
        array = self.inputs[name] = self._random(shape, dtype)
        value = _exactly(relay.var(name, shape=tuple(shape), dtype=dtype), dtype, array)
        self.values.append(value)
        return value

    def constant(self, shape: Sequence[int], dtype: str = "float32", scale: float = 1.0) -> Value:
        """Weights: a parameter or a constant of the text, now and then one that others have."""
        shared = [
            value
            for value in self._constants
            if (value.shape, value.dtype) == (tuple(shape), dtype)
            and (not value.is_float or float(np.abs(value.array).max(initial=0)) <= scale)
        ]
        if shared and self.chooser.random() < 0.4:
            return self.chooser.choice(shared)
        array = self._random(shape, dtype, scale)
        if self.chooser.random() < 0.7:
            name = f"w{len(self.params)}"
            self.params[name] = array
            expr = relay.var(name, shape=tuple(shape), dtype=dtype)
        else:
            expr = relay.const(array, dtype)
        self._constants.append(_exactly(expr, dtype, array))
        return self._constants[-1]

    def apply(
        self,
        expr: relay.Expr,
        function: Callable[..., np.ndarray],
        *values: Value,
        dtype: str | None = None,
        exact: bool = False,
    ) -> Value:
        """What a NumPy function says that an expression of these values computes.

        Parameters
        ----------
        dtype
            Of the result; that of the first value where omitted.
        exact
            Nothing is rounded: elements are only moved or chosen.
        """
        kind = values[0].dtype if dtype is None else dtype
        samples = zip(*(value.samples for value in values), strict=True)
        with np.errstate(all="ignore"):
            made = [np.asarray(function(*arrays)) for arrays in samples]
        if made[0].size > MOST_ELEMENTS or not np.isfinite(made[0]).all():
            raise RefusedError
        if np.abs(made[0].astype("float64")).max(initial=0) > LARGEST[kind]:
            raise RefusedError
        if kind not in SHAKEN and any(not np.array_equal(made[0], other) for other in made[1:]):
            raise RefusedError
        if kind in SHAKEN and not exact:
            made[1:] = [self._shaken(array, kind) for array in made[1:]]
        return Value(expr, kind, tuple(array.astype(_stored(kind)) for array in made))

    def finish(self, outputs: Sequence[Value]) -> DrawnGraph:
        """The graph with these outputs; inputs that nobody reads stay inputs."""
        body = outputs[0].expr if len(outputs) == 1 else relay.Tuple([o.expr for o in outputs])
        known = {var.name_hint: var for var in relay.analysis.free_vars(body)}
        parameters = [value.expr for value in self.values if isinstance(value.expr, relay.Var)]
        parameters += [var for name, var in known.items() if name not in self.inputs]
        module = relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.Function(parameters, body))
        )
        params = {name: array for name, array in self.params.items() if name in known}
        return DrawnGraph(module, params, dict(self.inputs), tuple(outputs))

    def _random(self, shape: Sequence[int], dtype: str, scale: float = 1.0) -> np.ndarray:
        if dtype == "bool":
            return self._numbers.random(tuple(shape)) < 0.5
        if dtype in SHAKEN:
            return self._numbers.uniform(-scale, scale, tuple(shape)).astype(dtype)
        return self._numbers.integers(-9, 10, tuple(shape)).astype(dtype)

    def _shaken(self, array: np.ndarray, dtype: str) -> np.ndarray:
        size = SHAKEN[dtype] * np.abs(array).max(initial=0)
        return array + self._numbers.uniform(-size, size, array.shape)


def _exactly(expr: relay.Expr, dtype: str, array: np.ndarray) -> Value:
    return Value(expr, dtype, (array.astype(_stored(dtype)),) * 3)


def _stored(dtype: str) -> str:
    """In what NumPy computes: wide enough that nothing is rounded, and nothing goes round."""
    return "bool" if dtype == "bool" else "float64" if dtype in SHAKEN else "int64"
