"""Pinning of processes to cores, with their descendants and all threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from tvm_ios.errors import HostError

__all__ = ["descendants", "pin_tree"]

MOST_PASSES = 50
"""Limit of passes; the last pass moves nothing, and threads that start meanwhile need another."""


def pin_tree(cores: Collection[int], *roots: int) -> None:
    """Pin processes, their descendants and all threads of them to cores.

    Later threads get the same cores, since a thread inherits those of the thread that starts it.
    Processes that end meanwhile, or are somebody else's, are left out. ``roots`` are process ids,
    such as this process or marked ones whose parent is gone
    (:func:`~tvm_ios.tuning.guard.marked_processes`).
    """
    wanted = set(cores)
    for _ in range(MOST_PASSES):
        moved = [_pin(thread, wanted) for root in roots for thread in _threads_below(root)]
        if not any(moved):
            return


def descendants(root: int) -> tuple[int, ...]:
    """A process with its descendants, as far as their parents live; empty where it has ended."""
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        threads = _threads(process)
        if not threads:
            continue
        found.append(process)
        # The kernel lists children with the thread that started them.
        for thread in threads:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{process}/task/{thread}/children").read_text()
                waiting.extend(map(int, children.split()))
    return tuple(found)


def _threads_below(root: int) -> Iterator[int]:
    for process in descendants(root):
        yield from _threads(process)


def _threads(process: int) -> list[int]:
    """Threads of a process; none where it has ended, which the kernel says by several OSErrors."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208
    return []


def _pin(thread: int, wanted: set[int]) -> bool:
    """True if the thread had to be moved."""
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
