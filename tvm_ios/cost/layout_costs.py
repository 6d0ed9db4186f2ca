"""Costs of places in both layouts, from prices of their convolutions and bytes that move.

Rates of copies between caches are guesses, as multiples of the device's (ADR 33 says of what).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm_ios.core.image_layouts import ImagePlaces, LayoutCosts
from tvm_ios.host.lane_speeds import LaneSpeeds

__all__ = ["LEAST_MOVE_NS", "layout_costs", "moved_ns"]

UNBLOCKED = 5
"""Factor by which kernels that cut or join inside a block are slower than copies of whole runs."""
JOINED = 5
"""Factor by which a concatenation of two layouts, and what follows it, is slower than a copy."""
LEAST_MOVE_NS = 500
"""Nanoseconds of a kernel that lays out few data anew, and of what waits for it."""


def layout_costs(
    places: ImagePlaces[Any],
    blocks_ns: Sequence[float],
    channels_last_ns: Sequence[float],
    moved: Callable[[int], int],
) -> LayoutCosts:
    """Costs of all places of a model.

    Parameters
    ----------
    places
        Convolutions, and bytes that go between them.
    blocks_ns, channels_last_ns
        Nanoseconds of each convolution in blocks of channels, and with channels last; infinite
        where it cannot be so.
    moved
        Nanoseconds to read and write so many bytes: :func:`moved_ns` of a device.
    """
    return LayoutCosts(
        blocks_ns=[
            ns + UNBLOCKED * moved(unblocked)
            for ns, unblocked in zip(blocks_ns, places.unblocked_bytes, strict=True)
        ],
        channels_last_ns=[
            ns + moved(copied)
            for ns, copied in zip(channels_last_ns, places.copied_bytes, strict=True)
        ],
        moves_ns={
            pair: LEAST_MOVE_NS + moved(size) + JOINED * moved(places.joined_bytes.get(pair, 0))
            for pair, size in places.moved_bytes.items()
        },
    )


def moved_ns(speeds: LaneSpeeds, lanes: int) -> Callable[[int], int]:
    """Function from bytes to the nanoseconds in which lanes read and write them, about."""
    return lambda size_bytes: round(speeds.passed_ns(2 * size_bytes, lanes))
