"""The merge rule: convolutions that may run as one, and each one's place in the merged one.

A merge stage runs convolutions of one operand as a single convolution whose output channels are
those of the members, one after another, and whose kernel holds every member's kernel, padded with
zeros (Ding et al., MLSys 2021, section 3.1).

For output row y and kernel row a a convolution reads input row ``y*stride - top + a*dilation``.
A member lying ``offset`` rows inside the merged kernel reads ``y*stride - TOP + (a + offset) *
dilation``. Both are the same row exactly if ``TOP - top == offset * dilation``, so paddings decide
where a member lies. The published code puts every kernel in the middle instead.

Zero times a finite number adds nothing, but zero times inf or NaN is NaN: around an inf of the
input a padded kernel gives NaN where the member alone, which does not look there, gives a number.
Kernels of one size are not padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import Convolution
from tvm_ios.errors import ScheduleError

__all__ = [
    "MergedConvolution",
    "MergedMember",
    "count_padded_kernels",
    "merge_convolutions",
    "why_not_merge",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedMember:
    """Place of a member in the weight of a merged convolution."""

    out_channel_begin: int
    out_channel_end: int
    kernel_offset: tuple[int, int]
    """Rows and columns of zeros before the member's kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedConvolution:
    """The geometry of a merged convolution; strides, dilation and layout are the members'."""

    input_shape: tuple[int, int, int]
    """Shape of the input: channels, height, width."""
    out_channels: int
    kernel: tuple[int, int]
    """Height and width: on each axis the largest of the members."""
    padding: tuple[int, int, int, int]
    """Zeros around the data: top, left, bottom, right."""
    members: tuple[MergedMember, ...]
    """Members in the order they were given."""


def why_not_merge(
    members: Sequence[Convolution | None], *, centred: bool = False, pad_kernels: bool = True
) -> str | None:
    """Reason why operators may not run as one convolution; None if they may.

    An operator that is no convolution is None. ``centred`` also refuses kernels that do not lie in
    the middle of the merged one; without ``pad_kernels`` all kernels have to be of one size.
    """
    if len(members) < 2:
        return f"a merge needs two operators or more, here are {len(members)}"
    first = members[0]
    for position, member in enumerate(members):
        if first is None or member is None:
            return f"member {position} is not a convolution"
        if not member.plain_operand:
            return f"member {position} sums or concatenates its operand first"
        if member.groups != 1:
            return f"member {position} is a convolution in {member.groups} groups"
        for field in ("operand", "input_shape", "strides", "dilation", "epilogue", "layout"):
            ours, theirs = getattr(member, field), getattr(first, field)
            if ours != theirs:
                return f"member {position} has {field} {ours!r}, member 0 has {theirs!r}"
        if member.output_size != first.output_size:
            return (
                f"member {position} has output size {member.output_size}, "
                f"member 0 has {first.output_size}"
            )
    convolutions = [member for member in members if member is not None]
    padded = None if pad_kernels else _why_padded(convolutions)
    return (
        padded
        or _why_not_on_axis(convolutions, 0, "rows", centred)
        or _why_not_on_axis(convolutions, 1, "columns", centred)
    )


def merge_convolutions(members: Sequence[Convolution | None]) -> MergedConvolution:
    """The merged convolution of two or more convolutions.

    Raises
    ------
    ScheduleError
        If :func:`why_not_merge` has a reason.
    """
    reason = why_not_merge(members)
    if reason:
        raise ScheduleError(f"these operators cannot be merged: {reason}")
    convolutions = [member for member in members if member is not None]
    first = convolutions[0]
    top, left = (max(member.padding[axis] for member in convolutions) for axis in (0, 1))
    height, width = _merged_kernel(convolutions)
    placed = []
    channel = 0
    for member in convolutions:
        placed.append(
            MergedMember(
                out_channel_begin=channel,
                out_channel_end=channel + member.out_channels,
                kernel_offset=(
                    (top - member.padding[0]) // member.dilation[0],
                    (left - member.padding[1]) // member.dilation[1],
                ),
            )
        )
        channel += member.out_channels
    return MergedConvolution(
        input_shape=first.input_shape,
        out_channels=channel,
        kernel=(height, width),
        padding=(
            top,
            left,
            _closing_padding(convolutions, 0, height, top),
            _closing_padding(convolutions, 1, width, left),
        ),
        members=tuple(placed),
    )


def count_padded_kernels(members: Sequence[Convolution | None]) -> int:
    """Number of convolutions whose kernel is smaller, on an axis, than their merged one."""
    convolutions = [member for member in members if member is not None]
    return sum(member.kernel != _merged_kernel(convolutions) for member in convolutions)


def _merged_kernel(members: Sequence[Convolution]) -> tuple[int, int]:
    height, width = (max(member.kernel[axis] for member in members) for axis in (0, 1))
    return height, width


def _why_padded(members: Sequence[Convolution]) -> str | None:
    height, width = _merged_kernel(members)
    for position, member in enumerate(members):
        if member.kernel != (height, width):
            rows, columns = member.kernel
            return (
                f"member {position} has a kernel of {rows}x{columns}, which would be padded with "
                f"zeros to {height}x{width}"
            )
    return None


def _why_not_on_axis(
    members: Sequence[Convolution], axis: int, name: str, centred: bool
) -> str | None:
    kernel = max(member.kernel[axis] for member in members)
    before = max(member.padding[axis] for member in members)
    for position, member in enumerate(members):
        offset, rest = divmod(before - member.padding[axis], member.dilation[axis])
        slack = kernel - member.kernel[axis]
        if rest or offset > slack:
            return (
                f"the paddings disagree on {name}: member {position} is padded by "
                f"{member.padding[axis]}, another by {before}, so its kernel of "
                f"{member.kernel[axis]} would lie outside the merged kernel of {kernel}"
            )
        if centred and offset != slack // 2:
            return (
                f"the paddings disagree on {name}: member {position} is padded by "
                f"{member.padding[axis]}, another by {before}, so its kernel of "
                f"{member.kernel[axis]} would not lie in the middle of {kernel}"
            )
    return None


def _closing_padding(members: Sequence[Convolution], axis: int, kernel: int, before: int) -> int:
    """Bottom or right padding: the members' largest if it keeps the output size, else the least.

    Padding beyond the last row read has no effect, so any value that gives the output size will do.
    The largest of the members' is taken where it does, since equal workloads tune alike.
    """
    first = members[0]
    extent = first.dilation[axis] * (kernel - 1) + 1
    size = first.input_shape[1 + axis]
    least = (first.output_size[axis] - 1) * first.strides[axis] + extent - size - before
    largest = max(member.padding[2 + axis] for member in members)
    if least <= largest < least + first.strides[axis]:
        return largest
    return max(0, least)
