"""A worker: a process that does the work of one job, stage by stage.

It is started with the number of a socket, on which it is told what to do. It ends when its work is
done, when it fails, or when the other side of the socket is gone.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import traceback
from pathlib import Path

from tvm_ios.errors import TvmIosError
from tvm_ios.jobs.local.worker_gate import WorkerGate
from tvm_ios.support.messages import Verbosity, shown_messages

__all__ = ["main", "shortened"]

_PR_SET_CHILD_SUBREAPER = 36
_REASON_LIMIT = 16 << 10
"""Characters of a reason that are told: an error of a compiler may quote all that it compiled."""


def main(descriptor: int) -> None:
    """Do the work that is told on the socket, and leave."""
    # Processes whose parents end become ours, so that whoever pins our tree pins them, too.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    line = socket.socket(fileno=descriptor)
    # A child that holds the line open would hide our end from the agent.
    line.set_inheritable(False)
    gate = WorkerGate(line)
    begin = gate.begin()
    order, reason = begin.order, ""
    with shown_messages(Verbosity.inherited()):
        try:
            order.work.run(order.spec, gate, Path(begin.folder))
        except TvmIosError as error:
            reason = str(error)
            print(f"tvm-ios: error: {reason}", file=sys.stderr)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}; the log has more"
    # _exit flushes nothing.
    sys.stdout.flush()
    sys.stderr.flush()
    gate.end(shortened(" ".join(reason.split())))
    # Threads and processes of tuners may not want to end; whoever started us ends them.
    os._exit(0)


def shortened(reason: str) -> str:
    """The beginning and the end of a reason that is too long for a line."""
    if len(reason) <= _REASON_LIMIT:
        return reason
    half = _REASON_LIMIT // 2
    return f"{reason[:half]} [...] {reason[-half:]}; the log has all of it"


if __name__ == "__main__":
    main(int(sys.argv[1]))
