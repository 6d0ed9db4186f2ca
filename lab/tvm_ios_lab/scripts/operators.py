"""Times of element-wise operators, norms and softmax: ``python -m tvm_ios_lab.scripts.operators``.

Each operator of 200,704 float32 is a network of its own, tuned as anybody would, and once more with
``exact``, which are stock TVM's kernels. All take turns in one race, of two minutes, beside an
addition of two tensors of that size. The race goes to ``lab/results/operators.json``, and a table
of it to ``lab/results/operators.txt``.
"""

from __future__ import annotations

import json

from tvm import relay

from tvm_ios import CompareOptions
from tvm_ios.measure.compare import Comparison, compare
from tvm_ios_lab.measurement import Measurement, program_command
from tvm_ios_lab.places import RESULTS
from tvm_ios_lab.scripts.one_operator import Compute, OneOperator

LANES = 2
IMAGE = (1, 64, 56, 56)
ROWS = (784, 256)
"""Rows as transformers have them, of as many elements as the image."""
RACE = CompareOptions(rounds=40, longest_s=120)
ADDITION = "addition"


def number(value: float) -> relay.Constant:
    """Constant of float32."""
    return relay.const(value, "float32")


def gelu(x: relay.Expr) -> relay.Expr:
    """GELU as PyTorch's exporters write it."""
    return x * (relay.erf(x * number(0.5**0.5)) + number(1)) * number(0.5)


def gelu_tanh(x: relay.Expr) -> relay.Expr:
    """GELU's approximation by tanh."""
    inner = number(0.7978846) * (x + number(0.044715) * relay.power(x, number(3)))
    return number(0.5) * x * (number(1) + relay.tanh(inner))


def mish(x: relay.Expr) -> relay.Expr:
    """Mish as PyTorch's exporters write it."""
    return x * relay.tanh(relay.log(number(1) + relay.exp(x)))


def layer_norm(x: relay.Expr) -> relay.Expr:
    """Layer norm over the last axis, decomposed as PyTorch's older exporter writes it."""
    centred = x - relay.mean(x, -1, keepdims=True)
    variance = relay.mean(relay.power(centred, number(2)), -1, keepdims=True)
    return centred / relay.sqrt(variance + number(1e-5)) * number(1.5) + number(0.5)


def rms_norm(x: relay.Expr) -> relay.Expr:
    """RMS norm over the last axis."""
    square = relay.mean(x * x, -1, keepdims=True)
    return x * relay.rsqrt(square + number(1e-6)) * number(1.5)


def softmax(shape: tuple[int, ...], axis: int) -> Compute:
    """Softmax of a reshaped tensor."""
    return lambda x: relay.nn.softmax(relay.reshape(x, shape), axis=axis)


OPERATORS: dict[str, OneOperator] = {
    ADDITION: OneOperator(lambda x, y: x + y, (IMAGE, IMAGE)),
    "sigmoid": OneOperator(relay.sigmoid, (IMAGE,)),
    "tanh": OneOperator(relay.tanh, (IMAGE,)),
    "swish": OneOperator(lambda x: x * relay.sigmoid(x), (IMAGE,)),
    "GELU": OneOperator(gelu, (IMAGE,)),
    "GELU by tanh": OneOperator(gelu_tanh, (IMAGE,)),
    "mish": OneOperator(mish, (IMAGE,)),
    "layer norm, rows of 256": OneOperator(layer_norm, (ROWS,)),
    "RMS norm, rows of 256": OneOperator(rms_norm, (ROWS,)),
    "softmax of 64 channels": OneOperator(softmax(IMAGE, 1), (IMAGE,)),
    "softmax, rows of 256": OneOperator(softmax(ROWS, -1), (IMAGE,)),
    "softmax, rows of 196": OneOperator(softmax((1024, 196), -1), (IMAGE,)),
    "softmax, rows of 56": OneOperator(softmax((3584, 56), -1), (IMAGE,)),
    "sum over rows of 3136": OneOperator(lambda x: relay.sum(x, [2, 3]), (IMAGE,)),
}
"""Networks by name."""


def table(race: Comparison) -> str:
    """Lines of microseconds, ratios to the addition and speedups over stock TVM's kernels."""
    lines = [f"{'operator':24} {'us':>8} {'additions':>9} {'stock, us':>9}  times as fast"]
    for name in OPERATORS:
        stock = f"{name}, stock"
        faster = race.speedup(name, over=stock)
        additions = race.speedup(ADDITION, over=name).ratio
        own_us, stock_us = (race.median_ns(each) / 1000 for each in (name, stock))
        interval = f"{faster.ratio:.2f} ({faster.low:.2f} to {faster.high:.2f})"
        lines.append(f"{name:24} {own_us:8.1f} {additions:9.2f} {stock_us:9.1f}  {interval}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Race all operators; write the table and the race."""
    executors = {
        f"{name}{suffix}": operator.executor(lanes=LANES, exact=exact)
        for name, operator in OPERATORS.items()
        for suffix, exact in (("", False), (", stock", True))
    }
    race = compare(
        {name: executor.time_ns for name, executor in executors.items()},
        options=RACE,
        ping_pong_ns=executors[ADDITION].ping_pong_ns,
    )
    text = table(race)
    (RESULTS / "operators.txt").write_text(text)
    origin = Measurement.here(program_command("tvm_ios_lab.scripts.operators")).origin()
    record = origin | {"lanes": LANES, "race": race.as_record()}
    (RESULTS / "operators.json").write_text(json.dumps(record, indent=1) + "\n")
    print(text, end="")


if __name__ == "__main__":
    main()
