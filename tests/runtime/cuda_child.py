"""Scenarios under the stand-in for CUDA, each in a process of its own.

The executor, TVM, its host code and its module loader are the real ones. This program imports them
once and forks for each line of its input: a fork has touched nothing of CUDA or of TVM's threads
yet, so it is as good as a new interpreter, and starts in no time. A line holds the arguments of
:func:`answer` in JSON and is answered by an exit status; what the scenario saw is the last line of
the file ``output``.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import warnings
from dataclasses import replace

import cuda_model
import cuda_pricing
import cuda_record
import cudnn_scenarios
import numpy as np
import tvm
from cuda_checks import (
    check_order,
    error_of,
    live,
    mark,
    names_of,
    record,
    stand_in,
    workspace_sizes,
)
from cuda_model import Model, network

import tvm_ios.driver.compile_schedule
import tvm_ios.driver.tune
import tvm_ios.profile.prices
from tvm_ios.errors import TvmIosError
from tvm_ios.plan.plan import launches_before
from tvm_ios.plan.stream_order import StepKind
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.tvm_names import IS_FFI, data_address, empty, filled, load_library


def streams(folder, lanes, listed=False):
    """One run on streams, twice."""
    model = Model(folder, lanes, listed=listed)
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
                mine = on_gpu(value)
                module.set_input_zero_copy(name, mine)
            elif step == "rebound":
                out = empty(module.get_output(0).shape, "float32", tvm.cuda())
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
            "bound": [data_address(mine) in bound, data_address(out) in bound],
            "zero_copy": data_address(module.get_output(0)) == data_address(out),
            "fallback": module.fallback,
            "timed": module.time_ns(3),
            "warm": _loads_before_capture(calls),
        }
    del mine, out
    return seen | {"live": live()}


def on_gpu(value):
    """Array of TVM with the values of one of NumPy's."""
    array = empty(value.shape, str(value.dtype), tvm.cuda())
    return array.copyfrom(value)


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
        load_library(str(model.library.path))
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
            failures = []
            reader = threading.Thread(target=_read, args=(module, failures))
            reader.start()
            reader.join()
            device.set_raw_stream(0 if IS_FFI else ctypes.c_void_p(None))
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
            threads = [threading.Thread(target=_repeat, args=(module, failures)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seen.setdefault("failures", []).extend(failures)
        device.free_raw_stream(stream)
    return seen | {"live": live()}


def _read(module, failures):
    try:
        module.get_output(0)
    except TvmIosError as error:
        failures.append(str(error))


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
        out = empty(module.get_output(0).shape, "float32", tvm.cpu())
        capsule = on_gpu(value)
        module["set_input_zero_copy"](name, capsule if IS_FFI else capsule.to_dlpack())
        module.run()
        result = module.benchmark(number=2, repeat=3)
        seen = {
            "inputs": [module.get_num_inputs(), len(shapes), dtypes[name]],
            "copied": module.get_output(0, out).same_as(out),
            "results": len(result.results),
            "read": bool((module.get_input(name).numpy() == value).all()),
            "streams": module.num_streams,
            "text": module.as_text().splitlines(),
        }
        errors = {}
        for what, action in {
            "shape": lambda: module.set_input(name, value[..., :1]),
            "device": lambda: module.set_input_zero_copy(name, filled(value)),
            "input": lambda: module.set_input("nothing", value),
            "output": lambda: module.get_output(9),
        }.items():
            errors[what] = error_of(action)
    module.close()
    for what, action in {
        "run": module.run,
        "get_output": lambda: module.get_output(0),
        "set_input": lambda: module.set_input(name, value),
        "trace": module.trace,
        "time_ns": lambda: module.time_ns(1),
    }.items():
        errors[what] = error_of(action)
    del capsule
    forgotten = model.module()
    forgotten.run()
    del forgotten
    return seen | {"errors": errors, "live": live()}


def unfit(folder):
    """No GPU, none of this number, one that is too old, and one with too little memory."""
    model = Model(folder)
    errors = {}
    control = stand_in()
    errors["number"] = error_of(lambda: model.module(device=3))
    control.stand_in_set_capability(80)
    errors["arch"] = error_of(lambda: model.module(arch="sm_90"))
    control.stand_in_set_capability(100)
    errors["newer"] = error_of(lambda: model.module(arch="sm_90").close())
    errors["exact"] = error_of(lambda: model.module(arch="sm_90a"))
    control.stand_in_set_capability(90)
    control.stand_in_set_memory.argtypes = [ctypes.c_size_t]
    control.stand_in_set_memory(20000)
    errors["memory"] = error_of(model.module)
    control.stand_in_set_memory(1 << 34)
    errors["none"] = error_of(lambda: model.module().close())
    return errors | {"live": live(), "plan": [model.plan.arena_bytes, len(model.params)]}


def no_device():
    """A driver without a GPU."""
    from tvm_ios.runtime.gpu.device import CudaDevice

    stand_in().stand_in_set_devices(0)
    return {"error": error_of(CudaDevice)}


def compiled(target, path):
    """A network from ``compile_schedule`` with real device code, exported and loaded."""
    from tvm_ios.core.schedule import Stage, Strategy
    from tvm_ios.search.baselines import greedy_schedule

    mod, params = network("small")
    sequential = tvm_ios.compile_schedule(mod, params, target)
    greedy = greedy_schedule(sequential.graph)
    names = sequential.graph.operators
    first, *rest = greedy.stages
    split = {True: [], False: []}
    for group in first.groups:
        split[names[group[0]].name.startswith("conv2d")].append(group)
    merge = Stage(tuple(split[True]), Strategy.MERGE), Stage(tuple(split[False]))
    merged = replace(greedy, stages=(*merge, *rest))
    seen = {"lanes": [sequential.plan.lanes], "launches": [], "runs": [], "stock": []}
    for schedule in (greedy, merged):
        model = tvm_ios.compile_schedule(mod, params, target, schedule=schedule)
        seen["lanes"].append(model.plan.lanes)
        seen["launches"].append(len(model.plan.launches))
        model.export_library(path)
        for make in (model.executor, lambda: tvm_ios.load(path, tvm.cuda())):
            with make() as module:
                module.run(data=np.ones((1, 16, 8, 8), "float32"))
                shape = list(module.get_output(0).numpy().shape)
                brings = module._streams._native._library is module._library.code
                seen["runs"].append([shape, module.fallback, brings])
        if not IS_FFI:
            seen["stock"].append(_stock_shape(path))
    seen["errors"] = [
        error_of(action)
        for action in (
            lambda: model.executor(tvm.cpu()),
            lambda: model.executor(lanes=1),
            lambda: tvm_ios.load(path, tvm.cpu()),
            lambda: tvm_ios.load(path, lanes=1),
            lambda: tvm_ios.load(path, options=LaneOptions()),
            lambda: tvm_ios.compile_schedule(mod, params, target, lanes=99),
        )
    ]
    return seen


def _stock_shape(path):
    from tvm.contrib import graph_executor

    factory = tvm.runtime.load_module(path)
    stock = graph_executor.GraphModule(factory["default"](tvm.cuda()))
    stock.run()
    return list(stock.get_output(0).shape)


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
    for at, (call, following) in enumerate(zip(calls, [*calls[1:], None], strict=True)):
        nth = seen.get(call.name, 0)
        seen[call.name] = nth + 1
        if call.name == "cudaSetDevice" and following and following.name == "cudaFree":
            continue  # TVM then leaves the memory to itself
        if IS_FFI and any(each.name == "cudaFree" for each in calls[at : at + 4]):
            continue  # TVM then ends the process, or we free nothing so that it does not
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


def lost(folder):
    """A GPU whose context is lost: what a run says, and that nothing is freed that cannot be."""
    model = Model(folder)
    with model.module(cuda_graph=False) as module:
        module.run()
        stand_in().stand_in_fail(b"cuLaunchKernel", 1, 719)
        error = error_of(module.run)
        arrays = 1 + len(module._memory.arrays)
        stand_in().stand_in_fail(b"cuCtxSynchronize", 1, 719)
    return {"error": error, "arrays": arrays, "live": live()}


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


# ---- The program ----

ROOMS = (cuda_model, cuda_pricing, cudnn_scenarios, sys.modules[__name__])


def main():
    """Answer requests until there are no more."""
    gc.freeze()  # what was imported is no garbage, and scenarios often look for some
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            return answer(**request)
        print(os.waitpid(child, 0)[1], flush=True)
    return None


def answer(scenario, arguments, environment, packages, output, errors):
    """Run one scenario, here; what is printed goes to files."""
    for path, number in ((os.devnull, 0), (output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    os.environ.update(environment)
    sys.path[:0] = packages
    run = next(found for room in ROOMS if (found := getattr(room, scenario, None)))
    print(json.dumps(run(**arguments)), flush=True)


if __name__ == "__main__":
    main()
