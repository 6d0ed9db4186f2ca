"""Scenarios of ``cuda_child.py`` in which operators are computed by the stand-in for cuDNN."""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import replace

import cuda_record
import tvm
from cuda_checks import check_order, error_of, live, mark, names_of, record, stand_in
from cuda_model import Model, keep_without_device_code, network
from cuda_pricing import TARGET
from cuda_pricing import _mergeable as mergeable
from cuda_pricing import _quick as quick
from cuda_pricing import _quickly as quickly

OOM = 2


def cudnn_runs(folder, lanes, every=1):
    """Runs on streams and as a graph of a plan in which cuDNN computes every n-th convolution."""
    model = Model(folder, lanes)
    model.plan = model.with_cudnn(every)
    name, value = model.data()
    with model.module() as module:
        module._streams.run()
        mark("run")
        module._streams.run()
        mark("end")
        module.set_input(name, value)
        module.run()
        module.run()
        calls = record()
        (section,) = cuda_record.captured(calls)
        origin = next(c.stream for c in calls if c.name == "cuStreamEndCapture")
        ways = {
            "streams": (cuda_record.after_mark(calls, "run"), 0),
            "graph": (section, origin),
        }
        seen = {way: check_order(model, module, *those) for way, those in ways.items()}
        for way, (those, _) in ways.items():
            seen[way]["calls"] = names_of(those)
            seen[way]["bias"] = _wrong_biases(model, module, those)
        events = module.trace()
        seen["workspace"] = module.workspace_bytes
    calls = record()
    by_stream = {(c.fields["handle"], c.stream) for c in calls if c.name in cuda_record.CUDNN}
    set_streams = [c for c in calls if c.name == "cudnnSetStream" and c.stream]
    return seen | {
        "by_cudnn": sum(launch.call is not None for launch in model.plan.launches),
        "launches": len(model.plan.launches),
        "traced": len(events),
        "handles": sorted(by_stream),
        "set": sorted((c.fields["handle"], c.stream) for c in set_streams),
        "searches": sum("Find" in c.name for c in calls),
        "fallback": module.fallback,
        "live": live(),
    }


def _wrong_biases(model, module, calls):
    """Calls that activate and read another bias than the plan's, where the plan has one."""
    table = module._memory
    known = set()
    for launch in model.plan.launches:
        if launch.call is not None and launch.call.descriptor.bias is not None:
            given = launch.call.descriptor
            places = (given.data, given.weight, given.bias)
            x, w, bias = (table.data(launch.inputs[place]) for place in places)
            known.add((x, w, table.data(launch.outputs[0]), bias))
    with_bias = {tensors[:3] for tensors in known}
    return [
        call.fields
        for call in calls
        if call.name == "cudnnConvolutionBiasActivationForward"
        and tuple(call.pointers[:3]) in with_bias
        and (*call.pointers[:3], int(call.fields["bias"], 16)) not in known
    ]


def cudnn_numbers(folder, tf32=False):
    """What was described to cuDNN, next to what Relay says of the same operators."""
    model = Model(folder, lanes=1)
    plan = model.with_cudnn(tf32=tf32)
    rows = []
    with model.module(plan, cuda_graph=False) as module:
        mark("run")
        module.run()
        mark("end")
        calls = cuda_record.after_mark(record(), "run")
    made = iter([c for c in calls if c.name in cuda_record.CUDNN and c.name != "cudnnAddTensor"])
    for launch in plan.launches:
        if launch.call is None:
            continue
        given = {
            name: [int(n) for n in text.split(",")]
            for name, text in next(made).fields.items()
            if name in ("x", "w", "padding", "strides", "dilation", "groups", "math", "dtype")
        }
        rows.append([given, model.cudnn[launch.operator_index]])
    return {"rows": rows, "left": len(list(made)), "live": live()}


def cudnn_algorithms(folder, database_folder):
    """Algorithms are found once, kept, and read again; and what is done where memory is short."""
    from tvm_ios.cost.database import ProfileDatabase
    from tvm_ios.runtime.gpu.device import CudaDevice
    from tvm_ios.runtime.libraries.cudnn.device import CudnnDevice
    from tvm_ios.runtime.libraries.cudnn.library import load_cudnn

    model = Model(folder)
    seen = {}

    def look(name, file, **changes):
        plan = model.with_cudnn(known=False, **changes)
        wanted = [a.call.descriptor.convolution for a in plan.launches if a.call]
        database = ProfileDatabase(f"{database_folder}/{file}.sqlite")
        mark(name)
        with CudaDevice() as gpu:
            cudnn = CudnnDevice(gpu, store=database)
            found = cudnn.algorithms(wanted)
            again = cudnn.algorithms(wanted) == found
            cudnn.close()
        mark("end")
        names = [c.name for c in cuda_record.after_mark(record(), name)]
        seen[name] = {
            "again": again,
            "numbers": [
                [each.relu, each.bias, None if known is None else known.number]
                for each, known in found.items()
            ],
            "searches": names.count("cudnnFindConvolutionForwardAlgorithmEx"),
            "heuristics": names.count("cudnnGetConvolutionForwardAlgorithm_v7"),
        }

    look("first", "a")
    look("second", "a")
    look("tf32", "a", tf32=True)
    library = ctypes.CDLL("libcudnn.so.9")
    library.cudnn_stand_in_set_offers(0)
    look("nothing", "c")
    look("nothing-again", "c")
    with model.module(model.with_cudnn(known=False)) as module:
        module.run()
        seen["kernels"] = [a.call is None for a in module.plan.launches]
    library.cudnn_stand_in_set_offers(1)
    library.cudnn_stand_in_set_version(91100)
    load_cudnn.cache_clear()
    look("version", "a")
    control = stand_in()
    control.stand_in_set_memory.argtypes = [ctypes.c_size_t]
    control.stand_in_set_memory(1 << 26)
    look("little", "b")
    look("little-again", "b")
    control.stand_in_set_memory(1 << 34)
    return seen | {"live": live()}


def cudnn_missing(folder):
    """No cuDNN, one that is too old, and a plan for another GPU."""
    import tvm_ios
    from tvm_ios.runtime.libraries.cudnn import library

    model = Model(folder)
    plan = model.with_cudnn()
    found, errors = library.cudnn_libraries, {}
    library.cudnn_libraries = lambda: ("libcudnn_of_nobody.so.9",)
    errors["none"] = error_of(lambda: model.module(plan))
    errors["tune"] = error_of(
        lambda: tvm_ios.tune(*network("small"), "cuda -arch=sm_90", options=_by_cudnn())
    )
    library.cudnn_libraries = found
    control = ctypes.CDLL(found()[0])
    control.cudnn_stand_in_set_version(8907)
    errors["old"] = error_of(lambda: model.module(plan))
    control.cudnn_stand_in_set_version(91002)
    errors["plain"] = error_of(lambda: model.module().close())
    errors["found"] = error_of(lambda: model.module(plan).close())
    return errors | {"live": live()}


def cudnn_inject(folder, graphs, code=5000):
    """Let each call of cuDNN in a life fail in turn."""
    model = Model(folder)
    plan = model.with_cudnn()
    _life(model, plan, graphs)
    mark("life")
    _life(model, plan, graphs)
    mark("end")
    calls = [c for c in cuda_record.after_mark(record(), "life") if c.name.startswith("cudnn")]
    nths: dict[str, int] = {}
    rows = []
    for call in calls:
        nth = nths[call.name] = nths.get(call.name, -1) + 1
        stand_in().stand_in_fail(call.name.encode(), nth, code)
        row = {"call": call.name, "kernel": "kernel" in call.fields}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            row["error"] = error_of(lambda: _life(model, plan, graphs))
        row |= {"warnings": [str(each.message) for each in warned], "live": live()}
        row["pending"] = stand_in().stand_in_pending()
        stand_in().stand_in_fail(b"", 0, 0)
        rows.append(row)
    _life(model, plan, graphs)
    return {"rows": rows, "operators": [a.operator for a in plan.launches if a.call]}


def _by_algorithm(call, number):
    algorithm = replace(call.descriptor.algorithm, number=number)
    return replace(call, descriptor=replace(call.descriptor, algorithm=algorithm))


def cudnn_workspace(folder):
    """A call of cuDNN that gets no workspace, and one that no algorithm computes."""
    model = Model(folder)
    plan = model.with_cudnn()
    errors = {}
    with model.module(plan) as module:
        stand_in().stand_in_fail(b"cuMemAlloc_v2", 0, OOM)
        errors["memory"] = error_of(module.run)
        errors["after"] = error_of(module.run)
    unknown = [
        replace(a, call=_by_algorithm(a.call, 5))
        if a.call and a.call.descriptor.convolution.relu
        else a
        for a in plan.launches
    ]
    with model.module(replace(plan, launches=tuple(unknown))) as module:
        errors["refused"] = error_of(module.run)
    return errors | {"live": live()}


def cudnn_tuned(network_name, database_folder, path):
    """``tvm_ios.tune`` with cuDNN, twice; what it found compiled anew, exported and loaded."""
    import tvm_ios
    from tvm_ios.core.schedule import InterOpSchedule
    from tvm_ios.cost.database import ProfileDatabase

    keep_without_device_code()
    mod, params = network(network_name)
    runs = []
    for number, tf32 in enumerate((False, False, True)):
        mark(f"tune{number}")
        model = tvm_ios.tune(
            mod,
            params,
            TARGET,
            lanes=4,
            database=f"{database_folder}/prices.sqlite",
            options=_by_cudnn(tf32=tf32),
        )
        mark("end")
        names = [call.name for call in cuda_record.after_mark(record(), f"tune{number}")]
        with model.executor() as module:
            module.run()
            ours = module.time_ns(10) / 10
            runs.append({"fallback": module.fallback, "time_ns": ours})
        schedule = InterOpSchedule.from_json(model.schedule.to_json())
        runs[-1] |= {
            "searches": sum("Find" in name for name in names),
            "chosen": [schedule.operator_names[index] for index in schedule.by_library("cudnn")],
            "merged": sum(stage.strategy.value == "merge" for stage in schedule.stages),
            "calls": [
                [a.operator, a.call.descriptor.convolution.tf32, a.call.descriptor.algorithm.number]
                for a in model.plan.launches
                if a.call is not None
            ],
            "windows": [
                [a.operator, list(a.call.descriptor.convolution.weight_shape[2:])]
                for a in model.plan.launches
                if a.call is not None
            ],
            "launches": len(model.plan.launches),
            "kinds": [a.operator.split("_")[0] for a in model.plan.launches],
            "notes": [note for note in model.report().as_text().splitlines() if "cuDNN" in note],
        }
    again = tvm_ios.compile_schedule(mod, params, TARGET, schedule=schedule, lanes=4)
    by_tvm = tvm_ios.TuneOptions(build=tvm_ios.BuildOptions(libraries=()))
    plain = tvm_ios.compile_schedule(
        mod, params, TARGET, schedule=schedule, lanes=4, options=by_tvm
    )
    everything = tvm_ios.compile_schedule(mod, params, TARGET, options=_by_cudnn())
    partitioned = tvm_ios.compile_schedule(model.module, None, TARGET, options=_by_cudnn(tf32=True))
    model.export_library(path)
    with tvm_ios.load(path, tvm.cuda()) as module:
        mark("load")
        module.run()
        module.run()
        mark("end")
        loaded = names_of(cuda_record.after_mark(record(), "load"))
        kept = module.plan == model.plan
    # Compiled without a search, and so without algorithms.
    everything.export_library(path)
    database = ProfileDatabase(f"{database_folder}/loads.sqlite")
    searches = []
    for number in range(2):
        mark(f"load{number}")
        with tvm_ios.load(path, tvm.cuda(), database=database) as module:
            module.run()
            found = {a.call.descriptor.algorithm.number for a in module.plan.launches if a.call}
        mark("end")
        calls = cuda_record.after_mark(record(), f"load{number}")
        searches.append([sum("Find" in call.name for call in calls), sorted(found)])
    return {
        "searches_at_load": searches,
        "runs": runs,
        "again": [a.operator for a in again.plan.launches if a.call is not None],
        "partitioned": [a.operator for a in partitioned.plan.launches if a.call is not None],
        "plain": sum(a.call is not None for a in plain.plan.launches),
        "everything": sum(a.call is not None for a in everything.plan.launches),
        "loaded": loaded,
        "kept": kept,
        "live": live(),
    }


def cudnn_merged(network_name, database_folder):
    """The price of a merge stage, and of the same without cuDNN."""
    from tvm_ios.compile.built_model import build_model
    from tvm_ios.compile.lower import lower_schedule
    from tvm_ios.core.schedule import Stage, Strategy
    from tvm_ios.cost.database import ProfileDatabase
    from tvm_ios.devices.targets import local_device
    from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
    from tvm_ios.profile.prices import StagePrices
    from tvm_ios.profile.stage_kernels import StageKernels
    from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
    from tvm_ios.search.baselines import sequential_schedule

    keep_without_device_code()
    built = build_model(*network(network_name), TARGET)
    seen = {}
    for name, libraries in (("by_tvm", ()), ("by_cudnn", (CudnnLibrary(tf32=False),))):
        ours = replace(built, libraries=libraries)
        database = ProfileDatabase(f"{database_folder}/prices.sqlite")
        with (
            local_device(ours.prepared.target).open() as session,
            StageKernels(ours, lanes=2, session=session, database=database) as runner,
        ):
            kernels = MeasuredKernels(runner, database=database, options=quick())
            prices = StagePrices(kernels, measure_operators(kernels).choice())
            members = mergeable(prices.graph)
            stages = [Stage(tuple((i,) for i in members), Strategy.MERGE)]
            stages += [Stage(tuple((i,) for i in members))]
            priced = list(prices.price(prices.graph, stages))
            in_order = sequential_schedule(prices.graph).stages
            rest = tuple(s for s in in_order if not set(s.operators) & set(members))
            merged = prices.annotate(
                replace(sequential_schedule(prices.graph), stages=(stages[0], *rest))
            )
            plan = lower_schedule(ours, merged, lanes=2).plan
            seen[name] = {
                "priced": priced,
                "alone": [prices.alone_ns[i] for i in members],
                "members": list(members),
                "chosen": None if merged.libraries is None else list(merged.by_library("cudnn")),
                "by": [a.operator for a in plan.launches if a.call is not None],
            }
    return seen | {"live": live()}


def _by_cudnn(*, tf32=False):
    from tvm_ios import BuildOptions

    return quickly(build=BuildOptions(libraries=("cudnn",), tf32=tf32))


def _life(model, plan, graphs):
    name, value = model.data()
    with model.module(plan, cuda_graph=graphs) as module:
        module.set_input(name, value)
        module.run()
        module.run()
