"""C code that a call of ``tune`` needs, compiled on another core while TVM is imported. No TVM."""

from __future__ import annotations

import threading

from tvm_ios.host.lane_speeds import LANE_SPEEDS
from tvm_ios.host.latency import PING_PONG
from tvm_ios.runtime.base.native_runtime import LANE_EXECUTOR
from tvm_ios.runtime.libraries.known import LIBRARIES
from tvm_ios.search.list_decoder import LIST_DECODER
from tvm_ios.search.native_space import STATE_SPACE
from tvm_ios.support.c_compiler import compile_ahead

__all__ = ["compile_code_ahead"]


def compile_code_ahead(kind: str) -> threading.Thread:
    """A thread that compiles what a call for a kind of target needs, the first needed first.

    ``kind`` is that of TVM's targets: ``llvm`` or ``cuda``.
    """
    calls = [each.native_object for each in LIBRARIES if each.target_kind == kind]
    sources = (LANE_SPEEDS, PING_PONG, LANE_EXECUTOR, LIST_DECODER, STATE_SPACE)
    return compile_ahead(*calls, *(each.as_library for each in sources))
