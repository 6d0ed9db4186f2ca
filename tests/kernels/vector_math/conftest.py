"""Functions compiled for vectors, and how far their values are from exact ones."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_ios.host import host_target
from tvm_ios.kernels.vector_math import arithmetic_lowering

SIZE, LANES = 1 << 18, 16
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 3.4028235e38, -3.4028235e38)
SUBNORMAL = (1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, 1.1754944e-38)
PLAIN = "llvm -mcpu=x86-64"
"""A processor without FMA."""


def targets():
    """This processor, and where it can, one without FMA."""
    here = str(host_target())
    return [here, PLAIN] if "x86" in str(tvm.target.codegen.llvm_get_system_triple()) else [here]


def arguments():
    """Float32 of all sizes, about one in 16,384, special ones first."""
    bits = np.arange(0, 1 << 32, (1 << 32) // SIZE, dtype=np.uint64) + 12345
    values = bits.astype(np.uint32).view(np.float32).copy()
    first = np.array([*SPECIAL, *SUBNORMAL], dtype="float32")
    values[: len(first)] = first
    return values


def computed(function, target, lanes=LANES):
    """Kernel for a function of :data:`SIZE` float32, its loop vectorised unless ``lanes`` is 0."""
    source = te.placeholder((SIZE,), name="x")
    result = te.compute((SIZE,), lambda i: function(source[i]), name="y")
    schedule = te.create_schedule(result.op)
    if lanes:
        schedule[result].vectorize(schedule[result].split(result.op.axis[0], lanes)[1])
    with arithmetic_lowering():
        return tvm.build(schedule, [source, result], target)


def largest_error(found, exact):
    """Largest error in units of the last place; inf where NaN, an infinity or a sign is wrong."""
    exact32 = exact.astype(np.float32)
    found, exact = found.astype(np.float64), exact.copy()
    # Next to the largest float32 comes 2^128, which is written as infinity.
    huge = np.isfinite(exact) & np.isinf(exact32)
    found[huge & np.isinf(found)] *= 0.0
    agree = (found == exact32) & (np.signbit(found) == np.signbit(exact32))
    agree |= np.isnan(found) & np.isnan(exact)
    agree |= huge & np.isnan(found)
    ulp = np.ldexp(1.0, np.clip(np.frexp(exact)[1] - 1, -126, 127) - 23)
    error = np.where(agree, 0.0, np.abs(found - exact) / ulp)
    error[~agree & ((found == 0) & (exact32 == 0))] = np.inf
    return float(np.nan_to_num(error, nan=np.inf).max())


@pytest.fixture
def error_of():
    """Largest error of a function on a target, by its exact twin in float64."""

    def measured(function, exact, target, lanes=LANES):
        x, result = arguments(), tvm.nd.empty((SIZE,))
        computed(function, target, lanes)(tvm.nd.array(x), result)
        with np.errstate(all="ignore"):
            return largest_error(result.numpy(), exact(x.astype(np.float64)))

    return measured
