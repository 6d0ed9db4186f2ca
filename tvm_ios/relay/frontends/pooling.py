"""Poolings whose output is rounded up: how many windows there are."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relay

__all__ = ["within_data"]


def within_data(
    value: relay.Expr,
    data_shape: Sequence[int],
    value_shape: Sequence[int],
    strides: Sequence[int],
    begins: Sequence[int],
) -> relay.Expr:
    """A pooling without windows that begin beyond the data, which TVM's have, and no framework's.

    Parameters
    ----------
    value
        A pooling of TVM with ``ceil_mode``.
    data_shape, value_shape
        Of what is pooled, and of the pooling, the dimensions of the window last.
    strides, begins
        Steps of the window, and how far before the data it begins, by dimension of the window.
    """
    count = len(strides)
    data, made = data_shape[-count:], value_shape[-count:]
    rows = list(zip(data, made, strides, begins, strict=True))
    if not all(isinstance(extent, int) for extent, *_ in rows):
        return value  # known once shapes are
    # A window more than there is place to begin, counted from the first one.
    ends = [min(ours, (extent + begin - 1) // step + 1) for extent, ours, step, begin in rows]
    if ends == list(made):
        return value
    return relay.strided_slice(value, [0] * len(value_shape), [*value_shape[:-count], *ends])
