"""A convolution in terms of no dialect, in a layout that it may come to have.

Comes before the model has that layout: operator libraries are asked about a convolution by what it
means. Weights are constants, and lie plain; a library lays them out as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import relay

from tvm_ios.core.fused_function import AttributeValue, FusedFunction, PrimitiveCall, TensorType
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.dataflow import is_call_of
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.transforms.channel_padding import MOST_WORK
from tvm_ios.relay.transforms.quantised.whole_numbers import whole_numbers_of
from tvm_ios.relay.transforms.transposed_convolution import TRANSPOSED

__all__ = ["PlacedConvolution", "placed_convolution"]

WHOLE = (StoredType(dtype="uint8"), StoredType(dtype="int8"))
"""Types in memory of data and weights that are whole numbers and stand for themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedConvolution:
    """A two-dimensional convolution, whatever its layout."""

    operator: str
    dtype: str
    images: int
    channels: tuple[int, int]
    """Input and output channels."""
    sizes: tuple[tuple[int, int], tuple[int, int]]
    """Height and width of data and of result."""
    kernel: tuple[int, int]
    groups: int
    window: tuple[tuple[str, AttributeValue], ...]
    """Strides, padding, dilation and output padding, as attributes."""
    whole: bool = False
    """True if data and result are whole numbers in memory, and weights too."""

    @property
    def flops(self) -> int:
        """Floating-point operations: two a multiply-add."""
        inputs, outputs = self.channels
        spread = prod(self.sizes[0 if self.transposed else 1])
        return 2 * self.images * spread * prod(self.kernel) * inputs * outputs // self.groups

    @property
    def transposed(self) -> bool:
        """True for a transposed convolution."""
        return self.operator == TRANSPOSED

    @property
    def depthwise(self) -> bool:
        """True if each channel has a kernel of its own."""
        return self.groups == self.channels[0] == self.channels[1] > 1

    @property
    def grouped(self) -> bool:
        """True if there are groups of several channels, which TVM leaves as they are in NCHW."""
        return 1 < self.groups < self.channels[0]

    def channels_last(self) -> FusedFunction:
        """Function on data of NHWC."""
        data, result = (
            (self.images, *size, channels)
            for size, channels in zip(self.sizes, self.channels, strict=True)
        )
        return self._function(self.operator, ("NHWC", data), ("NHWC", result), self.channels)

    def in_blocks(self, block: int, *, pads: bool = True) -> FusedFunction | None:
        """Function on whole blocks of channels, to which they are padded; None where they are not.

        Without ``pads`` none are. Few channels of a network's first data stay plain, and so does
        all of a convolution in groups.
        """
        if self.grouped:
            read, written = (
                ("NCHW", (self.images, channels, *size))
                for channels, size in zip(self.channels, self.sizes, strict=True)
            )
            return self._function(self.operator, read, written, self.channels)
        padded = tuple(-(-each // block) * block for each in self.channels)
        inputs, outputs = self.channels
        first = inputs < block and self.groups == 1
        grown = padded[1] > MOST_WORK * outputs or (not first and padded[0] > MOST_WORK * inputs)
        aligned = padded == (padded[0] if first else self.channels[0], self.channels[1])
        may_grow = pads and (self.groups == 1 or self.depthwise)
        if grown or self.transposed or not (aligned or may_grow):
            return None
        kept = (inputs if first else padded[0], padded[1])
        blocked = [
            (self.images, channels // block, *size, block)
            for channels, size in zip(kept, self.sizes, strict=True)
        ]
        layout = f"NCHW{block}c"
        data = ("NCHW", (self.images, inputs, *self.sizes[0])) if first else (layout, blocked[0])
        return self._function("nn.contrib_conv2d_NCHWc", data, (layout, blocked[1]), kept)

    def _function(
        self,
        operator: str,
        data: tuple[str, tuple[int, ...]],
        result: tuple[str, tuple[int, ...]],
        channels: tuple[int, int],
    ) -> FusedFunction:
        inputs, outputs = channels
        groups = inputs if self.depthwise else self.groups
        shape = (outputs, inputs // groups, *self.kernel)
        if self.transposed:
            shape = (inputs, outputs // groups, *self.kernel)
        layouts = (
            ("data_layout", data[0]),
            ("kernel_layout", "IOHW" if self.transposed else "OIHW"),
            ("out_layout", result[0]),
            ("groups", groups),
        )
        call = PrimitiveCall(
            operator=operator,
            operands=(0, 1),
            result=TensorType(result[1], self.dtype),
            attributes=(*self.window, *layouts),
        )
        parameters = (TensorType(data[1], self.dtype), TensorType(shape, self.dtype))
        described = FusedFunction(parameters=parameters, calls=(call,), constants=frozenset({1}))
        return described.stored_as(*WHOLE) if self.whole else described


def placed_convolution(call: relay.Call) -> PlacedConvolution | None:
    """Convolution of a typed call; None where its layout is not plain."""
    data_layout, kernel_layout = (
        str(call_attribute(call, f"{name}_layout")) for name in ("data", "kernel")
    )
    if {*data_layout} != {*"NCHW"} or {*kernel_layout} != {*"OIHW"}:
        return None
    if is_call_of(call, "qnn.conv2d"):
        return None
    data, kernel = (
        dict(zip(layout, map(int, argument.checked_type.shape), strict=True))
        for layout, argument in zip((data_layout, kernel_layout), call.args, strict=True)
    )
    out_layout = str(call_attribute(call, "out_layout")) or data_layout
    result = dict(zip(out_layout, map(int, call.checked_type.shape), strict=True))
    names = ["strides", "padding", "dilation"]
    names += ["output_padding"] if is_call_of(call, TRANSPOSED) else []
    return PlacedConvolution(
        operator=call.op.name,
        dtype=str(call.checked_type.dtype),
        images=data["N"],
        channels=(data["C"], result["C"]),
        sizes=((data["H"], data["W"]), (result["H"], result["W"])),
        kernel=(kernel["H"], kernel["W"]),
        groups=int(call_attribute(call, "groups")),
        window=tuple((name, tuple(map(int, call_attribute(call, name)))) for name in names),
        whole=whole_numbers_of(call.args[0]) is not None,
    )
