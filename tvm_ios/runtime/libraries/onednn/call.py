"""Calls of oneDNN, as a plan stores them: primitive, tensors, steps, and number of parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tvm_ios.core.fused_function import TensorType
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor, in_order
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError

__all__ = ["OnednnCall", "OnednnCut", "Primitive", "Step", "StepKind", "Window"]


class Primitive(Enum):
    """Kind of the computation of a call's first result, before its steps."""

    CONVOLUTION = "convolution"
    TRANSPOSED = "transposed convolution"
    PRODUCT = "product"
    MAX_POOLING = "max pooling"
    AVERAGE_POOLING = "average pooling"
    """Average that counts the zeros around the data."""
    AVERAGE_INSIDE = "average pooling inside"
    """Average that leaves out the zeros around the data."""
    SOFTMAX = "softmax"
    """Softmax along the last axis."""


class StepKind(Enum):
    """Kind of a step: a function of each element of a result."""

    RELU = "relu"
    """``alpha`` times the element where it is below 0."""
    PRELU = "prelu"
    """Operand times the element where that is below 0: one slope a channel, or one for all."""
    TANH = "tanh"
    ERF = "erf"
    """Error function, only inside of GELU: oneDNN has no such step."""
    EXP = "exp"
    """Exponential, only inside of Mish, like the logarithm."""
    LOG = "log"
    SIGMOID = "sigmoid"
    SWISH = "swish"
    """Element times the sigmoid of ``alpha`` times the element."""
    CLIP = "clip"
    """Element limited to the range from ``alpha`` to ``beta``."""
    GELU = "gelu"
    """GELU by the error function."""
    GELU_TANH = "gelu-tanh"
    """GELU by the hyperbolic tangent of a polynomial."""
    MISH = "mish"
    """Element times the hyperbolic tangent of its softplus."""
    HARD_SWISH = "hard-swish"
    """Element times (``alpha`` times the element plus ``beta``), the latter from 0 to 1."""
    ROUND = "round"
    """Nearest whole number, of two the even one."""
    LINEAR = "linear"
    """``alpha`` times the element plus ``beta``."""
    ADD = "add"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function of each element of the result, before it is written."""

    kind: StepKind
    alpha: float = 0.0
    beta: float = 0.0
    operand: OnednnTensor | None = None
    """Second operand, for kinds that take two; axes of extent 1 are broadcast."""

    def as_text(self) -> str:
        """Kind, constants and operand as one word of text."""
        numbers = f"({self.alpha:g},{self.beta:g})" if self.alpha or self.beta else ""
        return f"{self.kind.value}{numbers}{self.operand.as_text() if self.operand else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Strides, padding and dilation of a convolution or a pooling."""

    strides: tuple[int, ...]
    """Stride along each axis of the kernel: height and width, after the depth where there is
    one."""
    padding: tuple[int, ...]
    """Zeros before the data along each axis, then those after it: above, left, below, right."""
    dilation: tuple[int, ...]
    pooled: tuple[int, ...] | None = None
    """Height and width of the kernel of a pooling; None for convolutions, whose weights say."""

    @property
    def begins(self) -> tuple[int, ...]:
        """Zeros before the data along each axis."""
        return self.padding[: len(self.strides)]

    @property
    def ends(self) -> tuple[int, ...]:
        """Zeros after the data along each axis."""
        return self.padding[len(self.strides) :]

    def faults(self, axes: int) -> Iterator[str]:
        """Words on rows that are wrong for a number of axes, each after the name of the call."""
        rows = {"strides": self.strides, "dilation": self.dilation, "pooled": self.pooled}
        for name, row in rows.items():
            if row is not None and (len(row) != axes or min(row) < 1):
                yield f".window.{name} is {list(row)}; expected {axes} entries of 1 or more"
        if len(self.padding) != 2 * axes:
            yield f".window.padding is {list(self.padding)}; expected {2 * axes} entries"

    def as_text(self) -> str:
        """Text of all fields of the window."""
        size = "" if self.pooled is None else f"kernel={_by(self.pooled)} "
        return (
            f"{size}strides={_by(self.strides)} padding={_by(self.padding)} "
            f"dilation={_by(self.dilation)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnCut:
    """Number of parts of a call that was fastest, and where and with what it was found."""

    batches: int
    channels: int
    """Parts by output channels; in a product, by columns."""
    rows: int
    """Parts by rows of the output, or by its depth where it has one."""
    device: str
    """Name of the processor, and number of lanes that tried the cut."""
    version: str
    """Version of oneDNN, with the instruction sets it uses."""

    @property
    def parts(self) -> int:
        """Number of parts of the call."""
        return self.batches * self.channels * self.rows

    def as_text(self) -> str:
        """Parts by axis, such as ``1x2x1``: the text that is stored."""
        return f"{self.batches}x{self.channels}x{self.rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnCall:
    """A launch's call of oneDNN."""

    primitive: Primitive
    data: OnednnTensor
    weight: OnednnTensor | None
    """Weights: output channels, input channels of a group, height, width. Groups come first where
    there are several, and a depth before the height. Right operand of a product; None for poolings
    and softmax."""
    bias: OnednnTensor | None
    """Vector with one value an output channel."""
    result: OnednnTensor
    window: Window | None = None
    """Strides, padding and dilation; None for products and softmax."""
    steps: tuple[Step, ...] = ()
    cut: OnednnCut | None = None
    """Parts to compute; looked for on the processor if None, or of another processor or oneDNN."""

    @property
    def inputs(self) -> tuple[OnednnTensor, ...]:
        """Tensors that the call reads."""
        operands = (step.operand for step in self.steps)
        optional = (self.weight, self.bias, *operands)
        return (self.data, *(tensor for tensor in optional if tensor is not None))

    @property
    def grouped(self) -> bool:
        """True if the first axis of the weights is that of the groups of a convolution."""
        if self.weight is None or self.window is None:
            return False
        return len(self.weight.extents) > len(self.data.extents)

    def bare(self) -> OnednnCall:
        """The call without bias, steps and cut, on inputs of their own.

        Constant weights of a convolution lie as in a model that was not laid out: a reordered copy
        is kept, so how they lie costs nothing.
        """
        weight = None if self.weight is None else replace(self.weight, position=1)
        if weight is not None and weight.constant and self.window is not None:
            transposed = self.primitive is Primitive.TRANSPOSED and not self.grouped
            plain = "bacd" if transposed else "abcdef"
            weight = replace(
                weight,
                shape=weight.extents,
                format=plain[: len(weight.extents)],
            )
        data = replace(self.data, position=0)
        return replace(self, data=data, weight=weight, bias=None, steps=(), cut=None)

    @property
    def is_low(self) -> bool:
        """True for a convolution whose weights are of fewer bits than float32."""
        weight = self.weight
        return self.window is not None and weight is not None and weight.dtype != "float32"

    @property
    def takes_steps(self) -> bool:
        """True if oneDNN computes the steps rightly: 3.2 fails at some of a call without weights.

        Its AVX-512 code for poolings reads an operand of the result's extents as if it lay in
        blocks, also where channels do not. It accepts slopes, and then fails in every run.
        """
        plain = self.window is not None and self.result.format == in_order(len(self.result.extents))
        return self.weight is not None or not any(
            step.kind is StepKind.PRELU or (plain and _varies_inside(step.operand))
            for step in self.steps
            if step.operand is not None
        )

    def fits(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """True if the tensors of a launch are those of the call, and all of them are used."""
        positions = [tensor.position for tensor in self.inputs]
        return (
            {position for position in positions if position is not None} == set(range(len(inputs)))
            and None not in positions
            and len(outputs) == 1
            and all(
                inputs[tensor.position].fits(tensor.type)
                for tensor in self.inputs
                if tensor.position is not None
            )
            and outputs[0].fits(self.result.type)
        )

    def as_text(self) -> str:
        """Text of all fields but positions: key of the stored cut, and name in messages."""
        weight = "" if self.weight is None else f" * {self.weight.as_text()}"
        parts = [
            self.primitive.value,
            f"{self.data.as_text()}{weight} = {self.result.as_text()}",
            *([] if self.window is None else [self.window.as_text()]),
            *([] if self.bias is None else ["+bias"]),
            *(f"+{step.as_text()}" for step in self.steps),
        ]
        return " ".join(parts)

    def to_data(self) -> dict[str, Any]:
        """The fields as data for JSON; :meth:`from_data` reads them back."""
        record: dict[str, Any] = noun_record(OnednnCall, self)
        return record

    @classmethod
    def from_data(cls, data: StoredValue) -> OnednnCall:
        """Call in the data of :meth:`to_data`."""
        made = noun_from(cls, data, whole=True)
        for fault in _faults(made):
            raise UnreadableValueError(f"{data.where}{fault}; compile the model again")
        return made


def _faults(call: OnednnCall) -> Iterator[str]:
    """Words on what no call may be, each after the name of the call."""
    operands = {f"steps[{number}].operand": step.operand for number, step in enumerate(call.steps)}
    own = {"data": call.data, "weight": call.weight, "bias": call.bias, "result": call.result}
    for name, tensor in (own | operands).items():
        fault = None if tensor is None else tensor.fault
        if fault is not None:
            yield f".{name}{fault}"
    if call.window is not None:
        yield from call.window.faults(len(call.data.extents) - 2)
    if call.cut is not None and min(call.cut.batches, call.cut.channels, call.cut.rows) < 1:
        yield f".cut is {call.cut.as_text()}, which is no number of parts"
    if not call.takes_steps:
        yield f" is {call.as_text()}, which oneDNN gets wrong"


def _varies_inside(operand: OnednnTensor) -> bool:
    """True if a tensor has more than one value a channel."""
    return any(extent > 1 for axis, extent in enumerate(operand.extents) if axis != 1)


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
