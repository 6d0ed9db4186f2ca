"""Events that processor or kernel count for this process, by Linux' perf_event_open(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from enum import Enum
from pathlib import Path
from typing import Self

from tvm_ios.errors import HostError

__all__ = ["CountedEvent", "EventCounter"]

_SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""Layout of ``struct perf_event_attr`` in its first version, which every kernel takes."""
_TIMES_TOO = 0b11
"""Flag: reads also give the times the event was wanted and counted, as counters may take turns."""
_USER_ONLY = 1 << 5 | 1 << 6
"""Flags that leave out the share of kernel and hypervisor, which needs a privilege."""
_CLOSE_ON_EXEC = 8
_READING = struct.Struct("=QQQ")
_REMEDIES = {
    errno.EACCES: "set /proc/sys/kernel/perf_event_paranoid to 2 or less",
    errno.EPERM: "set /proc/sys/kernel/perf_event_paranoid to 2 or less, or allow "
    "perf_event_open in the container",
    errno.ENOENT: "virtual machines often have none; run where the processor's counters are seen",
    errno.EOPNOTSUPP: "virtual machines often have none; run where the processor's counters are "
    "seen",
}


class CountedEvent(Enum):
    """An event to count: the kernel's type and number of it."""

    INSTRUCTIONS = (0, 1)
    """Instructions that have retired, outside the kernel."""
    CPU_TIME = (1, 1)
    """Nanoseconds on a processor; the kernel counts them, whatever the processor can."""


class EventCounter:
    """A count of an event over all threads that this process has when it is opened.

    A context manager.
    """

    def __init__(self, event: CountedEvent) -> None:
        self._files: list[int] = []
        number = _SYSTEM_CALLS.get(platform.machine())
        if number is None or platform.system() != "Linux":
            raise HostError(
                f"{platform.system()} on {platform.machine()} cannot count {event.name.lower()}; "
                "Linux on x86-64 and on arm64 can"
            )
        try:
            for thread in Path("/proc/self/task").iterdir():
                file = _opened(number, event, int(thread.name))
                if file is not None:
                    self._files.append(file)
        except BaseException:
            self.close()
            raise

    def read(self) -> int:
        """Count since the counter was opened; an estimate where counters took turns."""
        total = 0.0
        for file in self._files:
            count, wanted_ns, counted_ns = _READING.unpack(os.read(file, _READING.size))
            if wanted_ns and not counted_ns:
                raise HostError(
                    "the processor's counters are all taken; end what else counts, such as perf"
                )
            total += count * wanted_ns / max(1, counted_ns)
        return round(total)

    def close(self) -> None:
        """Stop counting the event."""
        while self._files:
            os.close(self._files.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _opened(number: int, event: CountedEvent, thread: int) -> int | None:
    """File that counts for a thread; None where the thread has ended meanwhile."""
    kind, which = event.value
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, which, 0, 0, _TIMES_TOO, _USER_ONLY, 0, 0, 0)
    )
    file: int = ctypes.CDLL(None, use_errno=True).syscall(
        number, attributes, thread, -1, -1, _CLOSE_ON_EXEC
    )
    if file >= 0:
        return file
    code = ctypes.get_errno()
    if code == errno.ESRCH:
        return None
    remedy = _REMEDIES.get(code, "see perf_event_open(2)")
    raise HostError(
        f"the kernel does not count {event.name.lower()}: {os.strerror(code)}; {remedy}"
    )
