"""Ctrl-C in a verb that compiles with TVM: raised where it is not lost, told in one line.

TVM's C++ code calls Python back while it compiles. A KeyboardInterrupt there is printed and
dropped by TVM's binding in ctypes, and TVM goes on without an answer, to fail of something else or
not at all. The binding that ``install-tvm`` compiles passes it on.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from tvm_ios.cli.main import EXIT_INTERRUPTED, INTERRUPTED

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["told_interrupts"]

RETRY_S = 0.02
"""Seconds from a Ctrl-C that would have been lost to the next try."""

CALLED_FROM_C = frozenset({"cfun", "_ctypes_free_resource", "__del__"})
"""Names of functions that C code calls and whose exceptions it drops; two are TVM's callbacks."""


@contextmanager
def told_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt inside once nobody would lose it; end the process at a second Ctrl-C.

    An error after the first Ctrl-C counts as its consequence. Where Ctrl-C is ignored, or has a
    handler already, that stays.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    hook = sys.unraisablehook
    ctrl_c = _CtrlC()

    def drop(dropped: UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            ctrl_c.try_again()
        else:
            hook(dropped)

    sys.unraisablehook = drop
    signal.signal(signal.SIGINT, ctrl_c.hear)
    try:
        yield
    except Exception as error:
        if ctrl_c.heard:
            interrupt = KeyboardInterrupt()
            for note in getattr(error, "__notes__", ()):
                interrupt.add_note(note)
            raise interrupt from error
        raise
    finally:
        sys.unraisablehook = hook
        ctrl_c.over = True
        if not ctrl_c.heard:  # else a second Ctrl-C may come while Python ends
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _CtrlC:
    """State of Ctrl-C in the main thread: whether it was heard, and tried again since."""

    def __init__(self) -> None:
        self.heard = False
        self.over = False
        self._is_retry = False

    def hear(self, _signal: int, frame: FrameType | None) -> None:
        """Handle SIGINT, from a person or from :meth:`try_again`."""
        if self.heard and not self._is_retry:
            # print() may wait for what the interrupted code holds.
            os.write(2, f"{INTERRUPTED}\n".encode())
            os._exit(EXIT_INTERRUPTED)
        self.heard, self._is_retry = True, False
        if not _is_called_from_c(frame):
            raise KeyboardInterrupt
        self.try_again()

    def try_again(self) -> None:
        """Send SIGINT again in a moment."""
        # No threading.Timer: it takes locks that the interrupted code may hold.
        _thread.start_new_thread(self._send, ())

    def _send(self) -> None:
        time.sleep(RETRY_S)
        if self.over:
            return
        self._is_retry = True
        # Python runs handlers in the main thread only, and this wakes it where it waits.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _is_called_from_c(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name in CALLED_FROM_C:
            return True
        frame = frame.f_back
    return False
