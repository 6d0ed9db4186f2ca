"""Runs in a process of its own, under the stand-in for CUDA: ``cuda_child.py SCENARIO JSON``.

The executor, TVM, its host code and its module loader are the real ones; only device code is
missing, since nothing would run it. Each scenario prints what it saw as the last line, in JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import threading
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import cuda_record
import numpy as np
import tvm

from tvm_ios.errors import TvmIosError
from tvm_ios.runtime.cuda_module import CudaGraphModule
from tvm_ios.runtime.cuda_order import StepKind
from tvm_ios.runtime.kernel_library import KernelLibrary
from tvm_ios.runtime.native_runtime import shared_runtime
from tvm_ios.runtime.plan import ExecutionPlan, launches_before

KINDS = ("streams", "events", "graphs", "executables", "allocations", "contexts")


# ---- Building, where no stand-in is needed ----


def build(model, folder):
    """Compile a network for CUDA without device code; write what the scenarios need."""
    from tvm.contrib import cc

    from tvm_ios.core.c_compiler import compile_object
    from tvm_ios.host import cached_libinfo
    from tvm_ios.relay import build as build_module
    from tvm_ios.relay import placements_for, prepare
    from tvm_ios.runtime.lower import lower_plan
    from tvm_ios.search.baselines import greedy_schedule

    tvm._ffi.register_func("tvm_callback_cuda_compile", lambda *_: "none", override=True)
    with cached_libinfo():
        prepared = prepare(*_network(model), "cuda -arch=sm_90")
        built = build_module(prepared.module, prepared.target, prepared.params)
    folder = Path(folder)
    kernels = Path(__file__).with_name("native") / "cuda_kernels.c"
    library = built.factory.get_lib()
    library.export_library(
        str(folder / "kernels.so"), fcompile=cc.create_shared, addons=[str(compile_object(kernels))]
    )
    source = "".join(each.get_source() for each in library.imported_modules)
    lines = [
        f"{name} {arguments.count(',') + 1}"
        for name, arguments in re.findall(
            r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)", source
        )
    ]
    (folder / "arguments.txt").write_text("\n".join(dict.fromkeys(lines)))
    (folder / "params").write_bytes(tvm.runtime.save_param_dict(built.params))
    placements = placements_for(built.extraction, greedy_schedule(built.extraction.graph))
    for lanes in range(1, 5):
        names = built.operator_names
        plan = lower_plan(built.graph_json, placements, lanes=lanes, operator_names=names)
        (folder / f"plan{lanes}.json").write_text(plan.to_json())
    return {}


def _network(model):
    from tvm import relay

    from tvm_ios.models import nasnet_small, squeezenet

    if model == "squeezenet":
        return squeezenet(image_size=64)
    if model == "nasnet_small":
        return nasnet_small()
    data = relay.var("data", shape=(1, 16, 8, 8))
    random = np.random.default_rng(1)
    params = {}

    def convolution(value, kernel, inputs, outputs):
        name = f"weight{len(params)}"
        shape = (outputs, inputs, kernel, kernel)
        params[name] = tvm.nd.array(random.standard_normal(shape).astype("float32"))
        padding = (kernel // 2, kernel // 2)
        return relay.nn.relu(relay.nn.conv2d(value, relay.var(name, shape=shape), padding=padding))

    if model == "small":
        first = [
            convolution(data, 1, 16, 16),
            convolution(data, 3, 16, 16),
            relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)),
        ]
        joined = relay.concatenate(first, axis=1)
        second = [convolution(joined, 3, 48, 8), convolution(joined, 1, 48, 16)]
        result = relay.concatenate(second, axis=1)
    else:  # operators of several kernels, with workspace between them
        sorted_ = [relay.argsort(convolution(data, 1, 16, width), axis=1) for width in (16, 24, 48)]
        result = relay.concatenate(sorted_, axis=1)
    return relay.transform.InferType()(tvm.IRModule.from_expr(result)), params


# ---- What the scenarios share ----


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


class Model:
    """What :func:`build` wrote."""

    def __init__(self, folder, lanes=2):
        folder = Path(folder)
        self.plan = ExecutionPlan.from_json((folder / f"plan{lanes}.json").read_text())
        self.library = KernelLibrary(folder / "kernels.so", shared_runtime())
        self.params = tvm.runtime.load_param_dict((folder / "params").read_bytes())
        lines = (folder / "arguments.txt").read_text().splitlines()
        self.kernels = [line.split()[0] for line in lines]

    def module(self, plan=None, **options):
        return CudaGraphModule(plan or self.plan, self.library, self.params, **options)

    def data(self):
        entry = next(e for e in self.plan.inputs if e.name not in self.params)
        tensor = self.plan.tensors[entry.tensor]
        return entry.name, np.ones(tensor.shape, tensor.dtype)

    def names(self, launch):
        """Device kernels of a launch, in order."""
        own = re.compile(rf"{launch.kernel}_kernel(_\d+)?")
        named = [name for name in self.kernels if own.fullmatch(name)]
        return sorted(named, key=lambda name: (len(name), name))

    def calling(self, kernel, at):
        """The plan with another host function for one operator."""
        launches = list(self.plan.launches)
        launches[at] = replace(launches[at], kernel=kernel)
        return replace(self.plan, launches=tuple(launches))


def launches_by_stream(model, calls):
    """For each stream the launches of the plan whose kernels it was given; and who owns them.

    Streams are numbered as they were made, which is the order of the lanes.
    """
    plan = model.plan
    lanes = sorted({group.lane for group in plan.groups})
    kernels = [call for call in calls if call.name == "cuLaunchKernel"]
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
    plan, table = model.plan, module._memory.table
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
    ranges = [_ranges(plan, table, launch) for launch in plan.launches]
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


def _ranges(plan, table, launch):
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
    """Bytes of everything that was allocated for kernels to work in, by address."""
    return {
        int(call.fields["address"], 16): int(call.fields["size"])
        for call in record()
        if call.name == "allocated" and call.fields["by"] == "cuMemAlloc_v2"
    }


def names_of(calls):
    """Names of calls, each once, sorted."""
    return sorted({call.name for call in calls})


# ---- Scenarios ----


def streams(folder, lanes):
    """One run on streams, twice."""
    model = Model(folder, lanes)
    with model.module(cuda_graph=False) as module:
        name, value = model.data()
        module.set_input(name, value)
        module.run()
        mark("run")
        module.run()
        mark("read")
        shape = list(module.get_output(0).numpy().shape)
        calls = cuda_record.after_mark(record(), "run")
        seen = check_order(model, module, calls, caller=0)
        seen |= {"calls": names_of(calls), "shape": shape, "timed": module.time_ns(3)}
    return seen | {"live": live()}


def faults(folder, lanes):
    """What the checks above say of programs with a wait too few, or one too many."""
    model = Model(folder, lanes)
    rows = []
    with model.module(cuda_graph=False) as module:
        module.run()
        executor = module._streams
        steps = executor.program.steps
        waits = [n for n, step in enumerate(steps) if step.kind is StepKind.WAIT]
        programs = [[*steps[:n], *steps[n + 1 :]] for n in waits]
        programs.append([*steps, steps[waits[-1]]])
        for program in programs:
            changed = replace(executor.program, steps=tuple(program))
            executor._binding = executor._bind(changed, executor._events)
            mark("run")
            module.run()
            mark("end")
            seen = check_order(model, module, cuda_record.after_mark(record(), "run"), caller=0)
            rows.append([len(seen["unordered"]), len(seen["needless"])])
    return {"rows": rows}


def graph(folder, lanes):
    """Capture, replay, and capture anew once buffers are bound."""
    model = Model(folder, lanes)
    with model.module() as module:
        name, value = model.data()
        module.set_input(name, value)
        module.run()
        runs = []
        for step in ("run", "again", "bound", "rebound", "same"):
            if step == "bound":
                mine = tvm.nd.array(value, tvm.cuda())
                module.set_input_zero_copy(name, mine)
            elif step == "rebound":
                out = tvm.nd.empty(module.get_output(0).shape, device=tvm.cuda())
                module.set_output_zero_copy(0, out)
            mark(step)
            module.run()
            mark("end")
            calls = cuda_record.after_mark(record(), step)
            runs.append(
                {
                    "launches": sum(call.name == "cuGraphLaunch" for call in calls),
                    "kernels": sum(call.name == "cuLaunchKernel" for call in calls),
                    "captures": sum(call.name == "cuStreamBeginCapture_v2" for call in calls),
                }
            )
        calls = record()
        sections = cuda_record.captured(calls)
        origin = next(c.stream for c in calls if c.name == "cuStreamEndCapture")
        seen = check_order(model, module, sections[0], origin) if len(sections) == 3 else {}
        seen.pop("strangers", None)  # the buffers of then are not those of now
        bound = {pointer for call in sections[-1] for pointer in call.pointers}
        seen |= {
            "runs": runs,
            "captures": module._graphs.captures,
            "inside": names_of(call for section in sections for call in section),
            "nodes": [int(c.fields["nodes"]) for c in calls if c.name == "captured"],
            "kernels": [sum(c.name == "cuLaunchKernel" for c in each) for each in sections],
            "bound": [_address(mine) in bound, _address(out) in bound],
            "zero_copy": _address(module.get_output(0)) == _address(out),
            "fallback": module.fallback,
            "timed": module.time_ns(3),
            "warm": _loads_before_capture(calls),
        }
    del mine, out
    return seen | {"live": live()}


def _address(array):
    return array.handle.contents.data


def _loads_before_capture(calls):
    names = [call.name for call in calls]
    last_load = len(names) - names[::-1].index("cuModuleGetFunction")
    return last_load < names.index("cuStreamBeginCapture_v2")


def trace(folder, lanes):
    """A traced run, by the stand-in's clock: a kernel takes 1000 ns."""
    model = Model(folder, lanes)
    with model.module() as module:
        events = module.trace()
    number = {launch.operator: n for n, launch in enumerate(model.plan.launches)}
    before = launches_before(model.plan.groups)
    at = {number[event.operator]: event for event in events}
    early = [
        event.operator
        for launch, event in at.items()
        for other in at
        if before[launch] >> other & 1 and at[other].end_ns > event.start_ns
    ]
    lanes_of = {launch: group.lane for group in model.plan.groups for launch in group.launches}
    lanes = sorted(set(lanes_of.values()))
    return {
        "early": early,
        "launches": len(at) == len(model.plan.launches),
        "streams": all(lanes[event.lane] == lanes_of[n] for n, event in at.items()),
        "sorted": [e.start_ns for e in events] == sorted(e.start_ns for e in events),
        "overlapping": sum(
            a.start_ns < b.end_ns and b.start_ns < a.end_ns for a in events for b in events
        )
        > len(events),
        "live": live(),
    }


def other_kernel(folder, kernel, at=3):
    """What a graph and streams make of a host function that captures may not hold, or fails."""
    model = Model(folder)
    plan = model.calling(kernel, at)
    seen = {}
    for graphs in (True, False):
        with (
            warnings.catch_warnings(record=True) as warned,
            model.module(plan, cuda_graph=graphs) as module,
        ):
            warnings.simplefilter("always")
            try:
                for _ in range(3):
                    module.run()
                error = None
            except TvmIosError as raised:
                error = f"{type(raised).__name__}: {raised}"
            seen["graph" if graphs else "streams"] = {
                "warnings": [str(each.message) for each in warned],
                "fallback": module.fallback,
                "error": error,
            }
    return seen | {
        "operator": plan.launches[at].operator,
        "replays": sum(call.name == "cuGraphLaunch" for call in record()),
        "live": live(),
    }


def workspace(folder, lanes):
    """Kernels with workspace, on several streams; and TVM loading the same file once more."""
    model = Model(folder, lanes)
    with model.module() as module:
        module.run()
        used = module.workspace_bytes
        calls = record()
        section = cuda_record.captured(calls)[0]
        origin = next(c.stream for c in calls if c.name == "cuStreamEndCapture")
        seen = check_order(model, module, section, origin)
        sizes = workspace_sizes()
        # A new module gives the kernels of the file TVM's own workspace back.
        tvm.get_global_func("runtime.ModuleLoadFromFile")(str(model.library.path), "so")
        module.set_input_zero_copy(0, module._memory.empty(model.plan.inputs[0].tensor))
        mark("reloaded")
        module.run()
        mark("end")
        again = cuda_record.after_mark(record(), "reloaded")
        seen |= {"captures": module._graphs.captures, "used": used, "sizes": sum(sizes.values())}
    places = [{p for c in each for p in c.pointers if p in sizes} for each in (section, again)]
    return seen | {
        "allocations": [c.fields["by"] for c in again if c.name == "allocated"],
        "same": places[0] == places[1],
        "live": live(),
    }


def caller_streams(folder):
    """Runs on a stream of the caller's, on the default one, and from two threads."""
    model = Model(folder)
    name, value = model.data()
    seen = {}
    for graphs in (True, False):
        device = tvm.cuda()
        with model.module(cuda_graph=graphs) as module:
            module.run()
            stream = device.create_raw_stream()
            device.set_raw_stream(stream)
            mark("other")
            module.run()
            mark("between")
            module.run()
            mark("set")
            module.set_input(name, value)
            mark("read")
            module.get_output(0)
            device.set_raw_stream(ctypes.c_void_p(None))
            mark("default")
            module.run()
            mark("end")
            calls = record()
            kind = "cuGraphLaunch" if graphs else "cuStreamWaitEvent"
            ends = cuda_record.after_mark(calls, "default")
            seen["graph" if graphs else "streams"] = {
                "other": [
                    c.stream for c in cuda_record.after_mark(calls, "other") if c.name == kind
                ],
                "changed": names_of(cuda_record.after_mark(calls, "other")),
                "unchanged": names_of(cuda_record.after_mark(calls, "between")),
                "set": [c.name for c in cuda_record.after_mark(calls, "set")],
                "read": [c.name for c in cuda_record.after_mark(calls, "read")],
                "default": [c.stream for c in ends if c.name == kind],
            }
            failures = []
            threads = [threading.Thread(target=_repeat, args=(module, failures)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seen["failures"] = failures
        device.free_raw_stream(stream)
    return seen | {"live": live()}


def _repeat(module, failures):
    try:
        for _ in range(5):
            module.run()
    except TvmIosError as error:
        failures.append(str(error))


def interface(folder):
    """The front, next to TVM's ``GraphModule`` on the same file's graph."""
    model = Model(folder)
    name, value = model.data()
    with model.module() as module:
        shapes, dtypes = module.get_input_info()
        module.run(**{name: value})
        out = tvm.nd.empty(module.get_output(0).shape)
        capsule = tvm.nd.array(value, tvm.cuda())
        module["set_input_zero_copy"](name, capsule.to_dlpack())
        module.run()
        result = module.benchmark(number=2, repeat=3)
        seen = {
            "inputs": [module.get_num_inputs(), len(shapes), dtypes[name]],
            "copied": module.get_output(0, out).same_as(out),
            "results": len(result.results),
            "read": bool((module.get_input(name).numpy() == value).all()),
            "streams": module.num_streams,
        }
        errors = {}
        for what, action in {
            "shape": lambda: module.set_input(name, value[..., :1]),
            "device": lambda: module.set_input_zero_copy(name, tvm.nd.array(value)),
            "input": lambda: module.set_input("nothing", value),
            "output": lambda: module.get_output(9),
        }.items():
            errors[what] = _error_of(action)
    module.close()
    for what, action in {
        "run": module.run,
        "get_output": lambda: module.get_output(0),
        "set_input": lambda: module.set_input(name, value),
        "trace": module.trace,
        "time_ns": lambda: module.time_ns(1),
    }.items():
        errors[what] = _error_of(action)
    del capsule
    forgotten = model.module()
    forgotten.run()
    del forgotten
    return seen | {"errors": errors, "live": live()}


def _error_of(action):
    try:
        action()
    except TvmIosError as error:
        return f"{type(error).__name__}: {error}"
    return None


def unfit(folder):
    """No GPU, none of this number, one that is too old, and one with too little memory."""
    model = Model(folder)
    errors = {}
    control = stand_in()
    errors["number"] = _error_of(lambda: model.module(device=3))
    control.stand_in_set_capability(80)
    errors["arch"] = _error_of(lambda: model.module(arch="sm_90"))
    control.stand_in_set_capability(100)
    errors["newer"] = _error_of(lambda: model.module(arch="sm_90").close())
    errors["exact"] = _error_of(lambda: model.module(arch="sm_90a"))
    control.stand_in_set_capability(90)
    control.stand_in_set_memory.argtypes = [ctypes.c_size_t]
    control.stand_in_set_memory(20000)
    errors["memory"] = _error_of(model.module)
    control.stand_in_set_memory(1 << 34)
    errors["none"] = _error_of(lambda: model.module().close())
    return errors | {"live": live(), "plan": [model.plan.arena_bytes, len(model.params)]}


def no_device():
    """A driver without a GPU."""
    from tvm_ios.runtime.cuda_device import CudaDevice

    stand_in().stand_in_set_devices(0)
    return {"error": _error_of(CudaDevice)}


# ---- Errors at every call ----


def inject(folder, graphs, code=719):
    """Let each call of a life fail in turn; say what was raised and what is left."""
    model = Model(folder)
    life(model, graphs)
    mark("life")
    life(model, graphs)
    mark("end")
    calls = cuda_record.after_mark(record(), "life")
    seen: dict[str, int] = {}
    rows = []
    calls = [call for call in calls if call.name.startswith("cu")]
    for call, following in zip(calls, [*calls[1:], None], strict=True):
        nth = seen.get(call.name, 0)
        seen[call.name] = nth + 1
        if call.name == "cudaSetDevice" and following and following.name == "cudaFree":
            continue  # TVM then leaves the memory to itself
        stand_in().stand_in_fail(call.name.encode(), nth, code)
        row = {"call": call.name, "nth": nth, "fields": call.fields, "error": None}
        row["next"] = following and following.name
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                life(model, graphs)
            except Exception as error:  # noqa: BLE001 - whatever comes out is what is tested
                row |= {"error": str(error), "type": type(error).__name__}
                del error
        row |= {
            "warnings": [str(each.message) for each in warned],
            "pending": stand_in().stand_in_pending(),
            "live": live(),
        }
        stand_in().stand_in_fail(b"", 0, 0)
        rows.append(row)
    life(model, graphs)
    return {"rows": rows, "operators": [a.operator for a in model.plan.launches]}


def life(model, graphs):
    """Everything a module does, from the beginning to the end."""
    name, value = model.data()
    with model.module(cuda_graph=graphs) as module:
        module.set_input(name, value)
        module.run()
        module.run()
        if graphs:
            module.set_input_zero_copy(name, module._memory.empty(model.plan.inputs[0].tensor))
            module.run()
        module.time_ns(2)
        module.trace()


if __name__ == "__main__":
    result = globals()[sys.argv[1]](**json.loads(sys.argv[2]))
    print(json.dumps(result))
