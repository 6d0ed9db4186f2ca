"""Whether recorded calls are a run of a plan: on its streams, in order, no wait too many."""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from pathlib import Path

import cuda_record

from tvm_ios.errors import TvmIosError
from tvm_ios.plan.plan import launches_before

KINDS = ("streams", "events", "graphs", "executables", "allocations", "contexts", "held")


def error_of(action):
    """The error of ours that an action ends with, as text; None without one."""
    try:
        action()
    except TvmIosError as error:
        return f"{type(error).__name__}: {error}"
    return None


@cache
def stand_in():
    """The stand-in, preloaded."""
    return ctypes.CDLL("libcuda.so.1")


def mark(text):
    """A line of our own in the record."""
    stand_in().stand_in_mark(text.encode())


def record():
    """What was recorded so far."""
    return cuda_record.read_record(Path(os.environ["CUDA_STAND_IN_LOG"]))


def live():
    """What is not freed, by kind; nothing is left out."""
    gc.collect()
    counts = {kind: stand_in().stand_in_live(kind.encode()) for kind in KINDS}
    return {kind: count for kind, count in counts.items() if count}


def launches_by_stream(model, calls):
    """For each stream the launches of the plan whose kernels it was given; and who owns them.

    Streams are numbered as they were made, which is the order of the lanes.
    """
    plan = model.plan
    lanes = sorted({group.lane for group in plan.groups})
    kernels = [call for call in calls if call.name in cuda_record.KERNELS]
    owner, wrong = {}, []
    for lane in lanes:
        stream = lanes.index(lane) + 1
        issued = [(n, c.fields["kernel"]) for n, c in enumerate(kernels) if c.stream == stream]
        wanted = [
            (launch, name)
            for group in plan.groups
            if group.lane == lane
            for launch in group.launches
            for name in model.names(plan.launches[launch])
        ]
        if [name for _, name in issued] != [name for _, name in wanted]:
            wrong.append({"stream": stream, "issued": issued, "wanted": wanted})
            continue
        owner |= {n: launch for (n, _), (launch, _) in zip(issued, wanted, strict=True)}
    if len(owner) != len(kernels):
        wrong.append("kernels on other streams")
    return owner, wrong


def check_order(model, module, calls, caller):
    """What is wrong with the order of recorded calls that are one run forked from the caller."""
    plan, table = model.plan, module._memory
    owner, wrong = launches_by_stream(model, calls)
    if wrong:
        return {"launches": wrong}
    framed = cuda_record.between_works(calls, caller)
    works = [call for call in framed if call.name in cuda_record.WORK]
    before = cuda_record.works_before(framed)
    last = len(works) - 1
    groups = launches_before(plan.groups)
    pieces = [0] * len(plan.launches)  # of each launch, as a mask of works
    for kernel, launch in owner.items():
        pieces[launch] |= 1 << kernel + 1
    needed = [0] * len(works)
    for kernel, launch in owner.items():
        needed[kernel + 1] = 1  # the fork
        for other in range(len(plan.launches)):
            if groups[launch] >> other & 1:
                needed[kernel + 1] |= pieces[other]
    needed[last] = (1 << last) - 1  # the join
    unordered = [
        (plan.launches[owner[n - 1]].operator if n < last else "join")
        for n in range(1, len(works))
        if needed[n] & ~before[n]
    ]
    ranges = [ranges_of(plan, table, launch) for launch in plan.launches]
    others: dict[int, set[int]] = {}
    for number, call in enumerate(works[1:last]):
        for pointer in set(call.pointers) - {begin for begin, _, _ in ranges[owner[number]]}:
            others.setdefault(pointer, set()).add(call.stream)
    return {
        "launches": [],
        "unordered": unordered,
        "sharing": _sharing(plan, ranges, owner, before, pieces),
        "needless": [c.fields for c in cuda_record.needless_waits(framed, needed)],
        "strangers": len(others.keys() - workspace_sizes()),
        "workspace": len(others),
        "shared_workspace": sum(len(streams) > 1 for streams in others.values()),
        "pointers": sum(len(call.pointers) for call in works),
        "waits": sum(call.name == "cuStreamWaitEvent" for call in calls),
        "streams": len({call.stream for call in works}) - 1,
    }


def ranges_of(plan, table, launch):
    """Bytes that a launch touches: begin, end, whether it writes them."""
    return [
        (table.data(tensor), table.data(tensor) + plan.tensors[tensor].size_bytes, writes)
        for tensors, writes in ((launch.inputs, False), (launch.outputs, True))
        for tensor in tensors
    ]


def _sharing(plan, ranges, owner, before, pieces):
    """Pairs of launches that touch the same bytes, one of them writing, in no order."""
    first = {launch: kernel for kernel, launch in reversed(owner.items())}
    return [
        [plan.launches[i].operator, plan.launches[j].operator]
        for j in range(len(plan.launches))
        for i in range(j)
        if j in first
        and pieces[i] & ~before[first[j] + 1]
        and any(
            (writes or overwrites) and low < end and begin < high
            for begin, end, writes in ranges[i]
            for low, high, overwrites in ranges[j]
        )
    ]


def workspace_sizes():
    """Bytes of what kernels have to work in, by address; without what was freed."""
    sizes = {}
    for call in record():
        if call.name == "allocated" and call.fields["by"] == "cuMemAlloc_v2":
            sizes[int(call.fields["address"], 16)] = int(call.fields["size"])
        elif call.name == "cuMemFree_v2":
            sizes.pop(int(call.fields["address"], 16), None)
    return sizes


def names_of(calls):
    """Names of calls, each once, sorted."""
    return sorted({call.name for call in calls})
