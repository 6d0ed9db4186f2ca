"""Tunes a small matrix product with both tuners of stock TVM; their callbacks write the logs."""

from __future__ import annotations

import sys
from pathlib import Path

from tvm import auto_scheduler, autotvm, target, te

TEMPLATE = "tvm_ios_tests/product"


def product(n):
    left, right = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n))
    return [left, right, te.compute((n, n), lambda i, j: te.sum(left[i, k] * right[k, j], k))]


@autotvm.template(TEMPLATE)
def template(n):
    tensors = product(n)
    schedule = te.create_schedule(tensors[-1].op)
    knobs = autotvm.get_config()
    row, _ = tensors[-1].op.axis
    knobs.define_split("tile", row, num_outputs=2)
    knobs["tile"].apply(schedule, tensors[-1], row)
    return schedule, tensors


def main(folder):
    here = target.Target("llvm")
    task = autotvm.task.create(TEMPLATE, args=(16,), target=here)
    autotvm.tuner.GridSearchTuner(task).tune(
        n_trial=2,
        measure_option=autotvm.measure_option(
            builder=autotvm.LocalBuilder(n_parallel=1, do_fork=False),
            runner=autotvm.LocalRunner(number=1, repeat=2),
        ),
        callbacks=[autotvm.callback.log_to_file(str(folder / "autotvm.log"))],
    )
    auto_scheduler.register_workload("tvm_ios_tests_product", f=product)
    search = auto_scheduler.SearchTask(func="tvm_ios_tests_product", args=(16,), target=here)
    search.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=2,
            num_measures_per_round=2,
            measure_callbacks=[auto_scheduler.RecordToFile(str(folder / "auto_scheduler.log"))],
            verbose=0,
        ),
        auto_scheduler.SketchPolicy(search, auto_scheduler.RandomModel(), verbose=0),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
