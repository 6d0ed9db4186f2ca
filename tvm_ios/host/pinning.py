"""Pins processes to cores, with all that they have started and all threads of these."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from tvm_ios.errors import HostError

__all__ = ["descendants", "pin_tree"]

MOST_PASSES = 50
"""A pass that finds nothing to move is the last one; threads that start meanwhile need another."""


def pin_tree(cores: Collection[int], *roots: int) -> None:
    """Pin processes, their descendants and all threads of them to cores.

    What starts later is bound to the same cores, since a thread inherits those of the one that
    starts it. A process that ends meanwhile, or is somebody else's, is passed over.

    Parameters
    ----------
    cores
        Numbers as ``os.sched_setaffinity`` takes them.
    roots
        Process ids, such as this process or marked ones whose parent is gone
        (:func:`~tvm_ios.tuning.guard.marked_processes`).

    Raises
    ------
    HostError
        If none of the cores is there for this machine's processes, or there are none.
    """
    wanted = set(cores)
    for _ in range(MOST_PASSES):
        moved = [_pin(thread, wanted) for root in roots for thread in _threads_below(root)]
        if not any(moved):
            return


def descendants(root: int) -> tuple[int, ...]:
    """A process and all that it started, and these started, as far as their parents live.

    Empty where it has ended.
    """
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        threads = _threads(process)
        if not threads:
            continue
        found.append(process)
        for thread in threads:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{process}/task/{thread}/children").read_text()
                waiting.extend(map(int, children.split()))
    return tuple(found)


def _threads_below(root: int) -> Iterator[int]:
    for process in descendants(root):
        yield from _threads(process)


def _threads(process: int) -> list[int]:
    """None where it has ended; the kernel says so in several ways, which are all an OSError."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208
    return []


def _pin(thread: int, wanted: set[int]) -> bool:
    """Whether the thread had to be moved."""
    try:
        if os.sched_getaffinity(thread) == wanted:
            return False
        os.sched_setaffinity(thread, wanted)
    except (ProcessLookupError, PermissionError):
        return False
    except (OSError, ValueError, OverflowError) as error:
        raise HostError(
            f"processes cannot be pinned to cores {sorted(wanted)}: {error}; give some of "
            f"{sorted(os.sched_getaffinity(0))}"
        ) from error
    return True
