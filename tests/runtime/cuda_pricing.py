"""Scenarios of ``cuda_child.py`` that price stages and tune: by the stand-in's clock."""

from __future__ import annotations

import gc
from pathlib import Path

from cuda_checks import error_of, live, names_of, record
from cuda_model import Model, keep_without_device_code, network

TARGET = "cuda -arch=sm_90"


def _quick():
    from tvm_ios.cost.measured import MeasureOptions

    return MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.02)


def priced(network_name, database_folder):
    """Stages of a network: what each costs, and how many kernels its longest group has."""
    from tvm_ios.compile.built_model import build_model
    from tvm_ios.core.schedule import Stage, Strategy
    from tvm_ios.cost.database import ProfileDatabase
    from tvm_ios.devices.targets import local_device
    from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
    from tvm_ios.profile.prices import StagePrices
    from tvm_ios.profile.stage_kernels import StageKernels
    from tvm_ios.runtime.base import loaded_plan
    from tvm_ios.search.baselines import greedy_schedule

    keep_without_device_code()
    images = []
    image_bytes = loaded_plan.image_bytes
    loaded_plan.image_bytes = lambda plan, *facts: images.append(plan) or image_bytes(plan, *facts)
    built = build_model(*network(network_name), TARGET)
    database = ProfileDatabase(f"{database_folder}/prices.sqlite")
    rows, merged = [], []
    with (
        local_device(built.prepared.target).open() as session,
        StageKernels(built, lanes=4, session=session) as runner,
    ):
        kernels = MeasuredKernels(runner, database=database, options=_quick())
        prices = StagePrices(kernels, measure_operators(kernels).choice())
        alone_ns = prices.alone_ns
        stages = [s for s in greedy_schedule(prices.graph).stages if len(s.groups) <= 4]
        stages += [Stage((group,)) for stage in stages for group in stage.groups]
        for stage, price in zip(stages, prices.price(prices.graph, stages), strict=True):
            longest = max(sum(alone_ns[index] for index in group) for group in stage.groups)
            rows.append([price, longest, len(stage.groups)])
        members = _mergeable(prices.graph)
        if len(members) > 1:
            stage = Stage(tuple((index,) for index in members), Strategy.MERGE)
            merged = list(prices.price(prices.graph, [stage]))
        counters = kernels.counters
    calls = record()
    return {
        "rows": rows,
        "alone_ns": list(alone_ns),
        "merged": merged,
        "measured": counters.priced,
        "images": len(images),
        "libraries": len(kernels.runner._native._loaded),
        "notes": list(prices.notes),
        "graphs": sum(call.name == "cuGraphInstantiateWithFlags" for call in calls),
        "calls": sorted(set(names_of(calls))),
        "live": live(),
    }


def _mergeable(graph):
    from tvm_ios.core.merge_rule import why_not_merge

    members = []
    for index, operator in enumerate(graph.operators):
        if operator.convolution is None or not operator.convolution.plain_operand:
            continue
        wider = [*(graph.operators[member].convolution for member in members), operator.convolution]
        if len(wider) == 1 or why_not_merge(wider) is None:
            members.append(index)
    return members


def _quickly(**nouns):
    """Options of ``tune`` that measure nothing for long."""
    import tvm_ios

    compare = tvm_ios.CompareOptions(rounds=6, min_repeat_ms=0.02)
    nouns = {"build": tvm_ios.BuildOptions(libraries=())} | nouns
    return tvm_ios.TuneOptions(measure=_quick(), compare=compare, **nouns)


def tuned(network_name, database_folder):
    """``tvm_ios.tune`` from a model to a run; twice, the second time on known prices."""
    import tvm_ios

    keep_without_device_code()
    mod, params = network(network_name)
    seen = []
    for _ in range(2):
        compiled = tvm_ios.tune(
            mod,
            params,
            TARGET,
            lanes=4,
            database=f"{database_folder}/prices.sqlite",
            options=_quickly(),
        )
        report = compiled.report()
        with compiled.executor() as module:
            module.run()
            fallback = module.fallback
            took = module.time_ns(10)
        seen.append(
            {
                "kept": report.kept.value,
                "text": report.as_text(),
                "streams": compiled.plan.lanes,
                "launches": len(compiled.plan.launches),
                "took": took,
                "fallback": fallback,
            }
        )
    return {"runs": seen, "live": live()}


def no_gpu(network_name):
    """What is said where there is a driver and no GPU, and of options that do not fit."""
    from cuda_checks import stand_in

    import tvm_ios

    mod, params = network(network_name)
    errors = {}
    for name, options in {
        "lanes": {"lanes": 99},
        "tracker": {
            "options": tvm_ios.TuneOptions(
                device=tvm_ios.DeviceOptions(rpc_tracker="127.0.0.1:9190", rpc_key="nobody")
            )
        },
    }.items():
        errors[name] = error_of(lambda given=options: tvm_ios.tune(mod, params, TARGET, **given))
    stand_in().stand_in_set_capability(80)
    errors["arch"] = error_of(lambda: tvm_ios.tune(mod, params, TARGET))
    stand_in().stand_in_set_devices(0)
    errors["none"] = error_of(lambda: tvm_ios.tune(mod, params, TARGET))
    return errors


def kernels_tuned(network_name, database_folder, backend):
    """``tune`` with a tuner of TVM's: its builder, its tracker and server, its log."""
    import tvm_ios
    from tvm_ios.tuning.ansor import run as ansor_run
    from tvm_ios.tuning.records.records import read_records

    ansor_run.POPULATION = 16  # how well it searches is no concern here
    if backend == "autotvm":  # its builder forks; the other one starts anew, and needs nvcc
        keep_without_device_code()
    mod, params = network(network_name)
    log = Path(database_folder) / f"{backend}.log"
    compiled = tvm_ios.tune(
        mod,
        params,
        TARGET,
        lanes=2,
        database=f"{database_folder}/prices.sqlite",
        tuning=backend,
        tuning_records=log,
        options=_quickly(
            kernels=tvm_ios.TuningOptions(trials=1, time_budget_s=None, min_repeat_ms=0)
        ),
    )
    records = read_records(log).records
    return {
        "text": compiled.report().as_text(),
        "records": len(records),
        "good": sum(record.mean_s < float("inf") for record in records),
        "lines": [record.line for record in records],
        "live": live(),
    }


def two_libraries(folder):
    """One file loaded twice; the second is used once the first is gone."""
    first = Model(folder)
    with first.module() as module:
        module.run()
    second = Model(folder)
    apart = first.library.code._handle != second.library.code._handle
    del first, module
    gc.collect()
    with second.module() as module:
        module.run()
        shape = list(module.get_output(0).shape)
    return {"apart": apart, "shape": shape, "live": live()}
