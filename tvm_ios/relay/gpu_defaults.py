"""Default kernels of untuned GPU convolutions, with blocks of many threads.

TVM's templates for CUDA imitate a downloaded log of other people's records. Offline they leave
every tile at one, and so every block at one thread, of the 32 that a GPU runs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm.autotvm.task.space import (
    FallbackConfigEntity,
    OtherOptionEntity,
    SplitSpace,
    get_factors,
)

from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["default_gpu_kernels", "default_tiles"]

FEWEST_BLOCKS = 264
"""Fewest blocks, two for each processor of a large GPU, before a thread computes several
channels."""
MOST_POSITIONS = 64
"""Most threads along width and height of a block; with channels up to twice as many in all."""
MOST_CHANNELS = 32
LONGEST_PRIME = 256
"""Widest row that becomes one row of threads if it has no useful divisors, such as 149."""
_SPACE = ("tile_f", "tile_y", "tile_x")
_REDUCED = {"tile_rc": 8, "tile_ry": 1, "tile_rx": 7}
"""Elements a block keeps in shared memory at once: at most 46 kB of the 48 kB a block has."""
_UNROLLED = 512, 256
"""Unrolled steps, with and without channels to sum over; each template's own middle choice."""


@contextmanager
def default_gpu_kernels() -> Iterator[None]:
    """Context in which templates without records and reference log take :func:`default_tiles`."""
    imitate = FallbackConfigEntity.fallback_with_reference_log

    def choose(config: Any, log: Sequence[Any]) -> None:
        target = tvm.target.Target.current()
        if log or target is None or not is_gpu_target(target) or not _is_convolution(config):
            imitate(config, log)
            return
        sizes = [config.space_map[name].product for name in _SPACE]
        sums = "tile_rc" in config.space_map
        for name, tiles in zip(_SPACE, default_tiles(*sizes, sums=sums), strict=True):
            config.fallback_split(name, [-1, 1, *tiles])
        for name, most in _REDUCED.items() if sums else ():
            config.fallback_split(name, [-1, most])
        config["auto_unroll_max_step"] = OtherOptionEntity(_UNROLLED[0 if sums else 1])
        config["unroll_explicit"] = OtherOptionEntity(0)

    FallbackConfigEntity.fallback_with_reference_log = choose
    try:
        yield
    finally:
        FallbackConfigEntity.fallback_with_reference_log = imitate


def default_tiles(
    channels: int, height: int, width: int, *, sums: bool
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Threads of a block, and results of one thread, along channels, height and width of an output.

    ``sums`` is True if an output value is a sum over channels, unlike in a depthwise convolution.
    """
    threads_x = _divisor(width, MOST_POSITIONS)
    if threads_x < 8 < width <= LONGEST_PRIME:
        threads_x = width
    threads_y = _divisor(height, max(1, MOST_POSITIONS // threads_x))
    most_f = max(1, 2 * MOST_POSITIONS // (threads_x * threads_y))
    blocks = (height // threads_y) * (width // threads_x)
    for each in (4, 2, 1) if sums else (1,):
        if channels % each == 0:
            threads_f = _divisor(channels // each, min(most_f, MOST_CHANNELS))
            if blocks * (channels // (each * threads_f)) >= FEWEST_BLOCKS:
                break
    return (threads_f, each), (threads_y, 1), (threads_x, 1)


def _divisor(number: int, most: int) -> int:
    return int(max(factor for factor in get_factors(number) if factor <= most))


def _is_convolution(config: Any) -> bool:
    """True if a configuration has the knobs of a convolution in NCHW, depthwise or not."""
    splits = {
        name: space.num_output
        for name, space in config.space_map.items()
        if isinstance(space, SplitSpace)
    }
    wanted = dict.fromkeys(_SPACE, 4)
    known = splits in (wanted, wanted | dict.fromkeys(_REDUCED, 2))
    return known and {"auto_unroll_max_step", "unroll_explicit"} <= config.space_map.keys()
