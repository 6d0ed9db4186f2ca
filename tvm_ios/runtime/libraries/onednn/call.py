"""Calls of oneDNN, as a plan stores them: what is computed, of which tensors, in which parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from tvm_ios.core.fused_function import TensorType
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor, in_order
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError

__all__ = ["OnednnCall", "OnednnCut", "Primitive", "Step", "StepKind", "Window"]


class Primitive(Enum):
    """What computes the first result, which steps follow."""

    CONVOLUTION = "convolution"
    TRANSPOSED = "transposed convolution"
    PRODUCT = "product"
    MAX_POOLING = "max pooling"
    AVERAGE_POOLING = "average pooling"
    """Zeros around the data count."""
    AVERAGE_INSIDE = "average pooling inside"
    """What is around the data does not count."""
    SOFTMAX = "softmax"
    """Along the last axis."""


class StepKind(Enum):
    """What a step does to each element of a result."""

    RELU = "relu"
    """Below 0, ``alpha`` times the element."""
    PRELU = "prelu"
    """Below 0, the other operand times the element: one slope a channel, or one for all."""
    TANH = "tanh"
    ERF = "erf"
    """Only inside of GELU: oneDNN has no such step."""
    EXP = "exp"
    """Only inside of Mish, as the next one."""
    LOG = "log"
    SIGMOID = "sigmoid"
    SWISH = "swish"
    """The element times the sigmoid of ``alpha`` times it."""
    CLIP = "clip"
    """From ``alpha`` to ``beta``."""
    GELU = "gelu"
    """With the error function."""
    GELU_TANH = "gelu-tanh"
    """With the hyperbolic tangent of a polynomial."""
    MISH = "mish"
    """The element times the hyperbolic tangent of its softplus."""
    HARD_SWISH = "hard-swish"
    """The element times ``alpha`` times it plus ``beta``, the latter from 0 to 1."""
    LINEAR = "linear"
    """``alpha`` times the element plus ``beta``."""
    ADD = "add"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something done to the result before it is written, element by element."""

    kind: StepKind
    alpha: float = 0.0
    beta: float = 0.0
    operand: OnednnTensor | None = None
    """The other operand, for kinds that take two; axes of extent 1 are broadcast."""

    def as_text(self) -> str:
        """Kind, constants and operand in a word."""
        numbers = f"({self.alpha:g},{self.beta:g})" if self.alpha or self.beta else ""
        return f"{self.kind.value}{numbers}{self.operand.as_text() if self.operand else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How the kernel of a convolution or a pooling moves over its data."""

    strides: tuple[int, ...]
    """One an axis that the kernel moves along: height and width, after the depth where there is
    one."""
    padding: tuple[int, ...]
    """Zeros before the data along each axis, then those after it: above, left, below, right."""
    dilation: tuple[int, ...]
    pooled: tuple[int, ...] | None = None
    """Height and width of what a pooling takes together; None for convolutions, whose weights
    say."""

    @property
    def begins(self) -> tuple[int, ...]:
        """Zeros before the data along each axis."""
        return self.padding[: len(self.strides)]

    @property
    def ends(self) -> tuple[int, ...]:
        """Zeros after the data along each axis."""
        return self.padding[len(self.strides) :]

    def as_text(self) -> str:
        """All fields in a word."""
        size = "" if self.pooled is None else f"kernel={_by(self.pooled)} "
        return (
            f"{size}strides={_by(self.strides)} padding={_by(self.padding)} "
            f"dilation={_by(self.dilation)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnCut:
    """The number of parts that was fastest, and where and with what it was found."""

    batches: int
    channels: int
    """Parts by output channels; of a product, by columns."""
    rows: int
    """Parts by rows of the output, or by its depth where it has one."""
    device: str
    """The processor, and how many lanes tried it."""
    version: str
    """The oneDNN, with the instruction sets that it uses."""

    @property
    def parts(self) -> int:
        """All parts."""
        return self.batches * self.channels * self.rows

    def as_text(self) -> str:
        """The parts by axis, such as ``1x2x1``: what is kept and read back."""
        return f"{self.batches}x{self.channels}x{self.rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnednnCall:
    """A launch's call of oneDNN."""

    primitive: Primitive
    data: OnednnTensor
    weight: OnednnTensor | None
    """Output channels, input channels of a group, height, width, after the groups where there are
    several, with a depth before the height where images have one; of a product, its right operand;
    None for poolings and softmax."""
    bias: OnednnTensor | None
    """One value an output channel."""
    result: OnednnTensor
    window: Window | None = None
    """None for products and softmax."""
    steps: tuple[Step, ...] = ()
    cut: OnednnCut | None = None
    """None, or one of another processor or oneDNN, is looked for when the plan is put on one."""

    @property
    def inputs(self) -> tuple[OnednnTensor, ...]:
        """All that is read."""
        operands = (step.operand for step in self.steps)
        optional = (self.weight, self.bias, *operands)
        return (self.data, *(tensor for tensor in optional if tensor is not None))

    @property
    def grouped(self) -> bool:
        """Whether the first axis of the weights is that of the groups of a convolution."""
        if self.weight is None or self.window is None:
            return False
        return len(self.weight.extents) > len(self.data.extents)

    @property
    def takes_steps(self) -> bool:
        """Whether oneDNN does the steps: 3.2 gets some wrong that follow a call without weights.

        Its code for poolings in AVX-512 reads an operand of the result's extents as if it lay in
        blocks, also where channels do not. Slopes it takes, and then fails in every run.
        """
        plain = self.window is not None and self.result.format == in_order(len(self.result.extents))
        return self.weight is not None or not any(
            step.kind is StepKind.PRELU or (plain and _varies_inside(step.operand))
            for step in self.steps
            if step.operand is not None
        )

    def fits(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """True if the tensors of a launch are those of the call, all of them used."""
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
        """All but positions in a line: the name that a cut is kept under, and for messages."""
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
        steps = [asdict(step) | {"kind": step.kind.value} for step in self.steps]
        return asdict(self) | {"primitive": self.primitive.value, "steps": steps}

    @classmethod
    def from_data(cls, data: StoredValue) -> OnednnCall:
        """Read what :meth:`to_data` gave.

        Raises
        ------
        UnreadableValueError
            If a field is missing or of another kind, or oneDNN gets the steps wrong.
        """
        images = OnednnTensor.from_data(data.field("data"))
        made = cls(
            primitive=data.field("primitive").member(Primitive),
            data=images,
            weight=data.field("weight").or_none(OnednnTensor.from_data),
            bias=data.field("bias").or_none(OnednnTensor.from_data),
            result=OnednnTensor.from_data(data.field("result")),
            window=data.field("window").or_none(
                lambda window: _window(window, len(images.extents) - 2)
            ),
            steps=tuple(map(_step, data.field("steps").rows())),
            cut=data.field("cut").or_none(_cut),
        )
        if not made.takes_steps:  # plans of earlier versions have such calls
            raise UnreadableValueError(
                f"{data.where} is {made.as_text()}, which oneDNN gets wrong; compile the model "
                "again"
            )
        return made


def _varies_inside(operand: OnednnTensor) -> bool:
    """Whether a tensor has more than one value a channel."""
    return any(extent > 1 for axis, extent in enumerate(operand.extents) if axis != 1)


def _window(data: StoredValue, axes: int) -> Window:
    pooled = data.optional_field("pooled")  # files of convolutions alone do without
    return Window(
        strides=_positive(data.field("strides"), axes),
        padding=tuple(value.whole() for value in data.field("padding").rows(2 * axes)),
        dilation=_positive(data.field("dilation"), axes),
        pooled=None if pooled is None else pooled.or_none(lambda value: _positive(value, axes)),
    )


def _positive(data: StoredValue, count: int) -> tuple[int, ...]:
    return tuple(value.whole(1) for value in data.rows(count))


def _step(data: StoredValue) -> Step:
    return Step(
        kind=data.field("kind").member(StepKind),
        alpha=data.field("alpha").number(),
        beta=data.field("beta").number(),
        operand=data.field("operand").or_none(OnednnTensor.from_data),
    )


def _cut(data: StoredValue) -> OnednnCut:
    return OnednnCut(
        batches=data.field("batches").whole(1),
        channels=data.field("channels").whole(1),
        rows=data.field("rows").whole(1),
        device=data.field("device").text(),
        version=data.field("version").text(),
    )


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
