"""A small matrix product with a template, as stock TVM's tuners have it."""

from __future__ import annotations

from tvm import autotvm, te

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
