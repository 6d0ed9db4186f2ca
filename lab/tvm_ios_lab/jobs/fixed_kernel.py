"""A kernel that is the same whenever it is timed: ``python -m tvm_ios_lab.jobs.fixed_kernel CORE``.

It stays on one core. For each line on its standard input, a number of seconds, it runs the kernel
for about so long, and prints a line with the nanoseconds of each run.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from tvm_ios.host import require_relay_tvm

SIZE = 192


def main() -> None:
    """Compile, warm up, and time as often as asked."""
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.environ["TVM_NUM_THREADS"] = "1"
    require_relay_tvm()
    import tvm  # noqa: PLC0415
    from tvm import te  # noqa: PLC0415

    left, right = (te.placeholder((SIZE, SIZE), name=name) for name in "ab")
    k = te.reduce_axis((0, SIZE))
    product = te.compute((SIZE, SIZE), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k))
    schedule = te.create_schedule(product.op)
    rows, columns = schedule[product].op.axis
    outer, inner = schedule[product].split(columns, 16)
    schedule[product].reorder(rows, outer, k, inner)
    schedule[product].vectorize(inner)
    function = tvm.build(schedule, [left, right, product], "llvm -mcpu=core-avx2", name="product")
    arrays = [tvm.nd.array(np.ones((SIZE, SIZE), "float32")) for _ in range(3)]
    _timed(function, arrays, 1.0)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*_timed(function, arrays, float(line)), flush=True)


def _timed(function: object, arrays: list[object], seconds: float) -> list[int]:
    found, end = [], time.perf_counter_ns() + int(seconds * 1e9)
    before = time.perf_counter_ns()
    while before < end:
        function(*arrays)  # type: ignore[operator]
        now = time.perf_counter_ns()
        found.append(now - before)
        before = now
    return found


if __name__ == "__main__":
    main()
