"""Errors of vector mathematics, over all float32: ``python -m tvm_ios_lab.scripts.vector_math``.

Each function is compiled for a processor without FMA, one with, and one with AVX-512, and compared
with SciPy or NumPy in float64 for all 2^32 arguments, which takes ten minutes a function. A line
for each goes to ``lab/results/vector_math.txt``; arguments choose functions, whose lines are added.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import tvm
from scipy import special  # type: ignore[import-untyped]
from tvm import te, tir

from tvm_ios.host.machine import version_facts
from tvm_ios.kernels.vector_math import arithmetic_lowering
from tvm_ios_lab.places import RESULTS

RESULT = RESULTS / "vector_math.txt"
SIZE = 1 << 20
"""Number of float32 of one call."""
PROCESSORS = ("x86-64", "haswell", "skylake-avx512")
EXPONENTS = (-1.0, -0.5, 0.5, 1.5, 2.0, 3.0, 4.0)
LARGEST = float(np.finfo(np.float32).max)
Compute = Callable[[Any], Any]


def _power(exponent: float) -> tuple[Compute, Compute]:
    constant = tir.const(exponent, "float32")
    if exponent > 1 and exponent.is_integer():  # NumPy takes minutes for powers beyond float64
        return lambda x: tir.power(x, constant), lambda x: prod([x] * int(exponent))
    # For a plain 0.5 NumPy computes a square root, which differs for -0.0 and -inf.
    return lambda x: tir.power(x, constant), lambda x: np.power(x, np.full_like(x, exponent))


FUNCTIONS: dict[str, tuple[Compute, Compute]] = {
    "exp": (tir.exp, np.exp),
    "sigmoid": (tir.sigmoid, special.expit),
    "tanh": (tir.tanh, np.tanh),
    "erf": (tir.erf, special.erf),
    "log": (tir.log, np.log),
    "rsqrt": (tir.rsqrt, lambda x: 1 / np.sqrt(x)),
} | {f"pow({exponent:g})": _power(exponent) for exponent in EXPONENTS}
"""TVM's operator and the exact function, by name."""


def compiled(function: Compute, processor: str) -> tvm.runtime.Module:
    """Kernel of a function for :data:`SIZE` float32, vectorised."""
    source = te.placeholder((SIZE,), name="x")
    result = te.compute((SIZE,), lambda i: function(source[i]), name="y")
    schedule = te.create_schedule(result.op)
    schedule[result].vectorize(schedule[result].split(result.op.axis[0], 16)[1])
    with tvm.transform.PassContext(opt_level=3), arithmetic_lowering():
        return tvm.build(schedule, [source, result], f"llvm -mcpu={processor}")


def errors_ulp(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the exact value; inf for a wrong NaN, inf or sign."""
    ulp = np.ldexp(1.0, np.clip(np.frexp(exact)[1] - 1, -126, 127) - 23)
    value = found.astype(np.float64)
    # As if the exponent had one more bit: next to the largest number is 2^128.
    beyond = np.isfinite(exact) & (np.abs(exact) > LARGEST)
    value = np.where(np.isinf(value) & np.isfinite(exact), np.copysign(2.0**128, value), value)
    exact = np.where(beyond & (np.abs(exact) > 2.0**128), np.copysign(2.0**128, exact), exact)
    error = np.abs(value - exact) / np.where(beyond, 2.0**104, ulp)
    special_value = ~np.isfinite(exact) | ((exact == 0) & (value == 0))
    agree = (np.isnan(value) & np.isnan(exact)) | (
        (value == exact) & (np.signbit(value) == np.signbit(exact))
    )
    return np.where(special_value, np.where(agree, 0.0, np.inf), np.nan_to_num(error, nan=np.inf))


def _worst(
    x: np.ndarray, found: np.ndarray, exact: np.ndarray, rounded: np.ndarray
) -> tuple[float, float]:
    """Largest error, at least half an ulp, which all values that are rounded rightly have."""
    others = np.flatnonzero(found.view(np.int32) != rounded.view(np.int32))
    others = others[~(np.isnan(found[others]) & np.isnan(rounded[others]))]
    if not others.size:
        return 0.5, float(x[0])
    errors = errors_ulp(found[others], exact[others])
    at = int(np.argmax(errors))
    return float(errors[at]), float(x[others[at]])


def worst_errors(name: str) -> dict[str, tuple[float, float]]:
    """Largest error in ulp by processor, and an argument that has it."""
    function, exact_function = FUNCTIONS[name]
    kernels = {processor: compiled(function, processor) for processor in PROCESSORS}
    worst = dict.fromkeys(PROCESSORS, (0.0, 0.0))
    argument, result = tvm.nd.empty((SIZE,)), tvm.nd.empty((SIZE,))
    first = np.arange(SIZE, dtype=np.uint32)
    for begin in range(0, 1 << 32, SIZE):
        x = (first + np.uint32(begin)).view(np.float32)
        argument.copyfrom(x)
        with np.errstate(all="ignore"):
            exact = exact_function(x.astype(np.float64))
            rounded = exact.astype(np.float32)
            before, error = None, (0.0, 0.0)
            for processor, kernel in kernels.items():
                kernel(argument, result)
                found = result.numpy()
                if before is None or not np.array_equal(found.view("int32"), before.view("int32")):
                    error = _worst(x, found, exact, rounded)
                before = found
                worst[processor] = max(worst[processor], error)
    return worst


def main() -> None:
    """Compare the functions named by arguments, all where there are none, and write."""
    names = sys.argv[1:] or list(FUNCTIONS)
    if not RESULT.exists():
        versions = ", ".join(f"{name} {version}" for name, version in version_facts().items())
        RESULT.write_text(
            "Largest errors in ulp over all 2^32 float32, with an argument; NaN, infinities and "
            "signs of zeros as exact.\nCommand: python -m tvm_ios_lab.scripts.vector_math\n"
            f"{versions}\n\n"
        )
    for name in names:
        worst = worst_errors(name).items()
        row = "  ".join(f"{processor} {ulp:.4f} at {x!r}" for processor, (ulp, x) in worst)
        print(f"{name:10} {row}", flush=True)
        with RESULT.open("a") as file:
            file.write(f"{name:10} {row}\n")


if __name__ == "__main__":
    main()
