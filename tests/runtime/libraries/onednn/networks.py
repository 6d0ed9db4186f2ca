"""Single operators as Relay, in float32 and float64, and what they give by TVM and by oneDNN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.target.x86 import get_simd_32bit_lanes

from tests.stock import stock_executor
from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.relay.dataflow import all_calls, rebuild, with_body
from tvm_ios.relay.functions.stored_types import with_stored_types
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.transforms.bfloat16 import rounded_constant
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.support.exact_bits import exact_bits

TARGET = host_target()
with tvm.target.Target(TARGET):
    BLOCK = get_simd_32bit_lanes()
"""Channels that tensors have side by side: oneDNN's fast code is for one vector of them."""
QUICK_TARGET = f"{TARGET} -opt-level=0"
"""The same, for kernels of TVM that run once or not at all."""
Make = Callable[[str], relay.Expr]


def variable(name: str, shape: tuple[int, ...], dtype: str) -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def constant(value: float, dtype: str) -> relay.Expr:
    return relay.const(value, dtype)


def shape_of(expression: relay.Expr) -> tuple[int, ...]:
    module = relay.transform.InferType()(tvm.IRModule.from_expr(expression))
    return tuple(int(extent) for extent in module["main"].body.checked_type.shape)


def convolution(
    dtype: str,
    shape=(1, 32, 14, 14),
    channels: int = 64,
    kernel: int = 3,
    groups: int = 1,
    layout: str = "NCHW",
    **attributes,
) -> relay.Expr:
    inputs = shape[layout.index("C")]
    weight, kernel_layout = (channels, inputs // groups, kernel, kernel), "OIHW"
    if layout == "NHWC":
        weight = (kernel, kernel, inputs, channels if groups == 1 else 1)
        kernel_layout = "HWIO" if groups == 1 else "HWOI"
    return relay.nn.conv2d(
        variable("x", shape, dtype),
        variable("w", weight, dtype),
        channels=channels,
        kernel_size=(kernel, kernel),
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
        **attributes,
    )


def nhwc(dtype: str, **attributes) -> relay.Expr:
    """A convolution in NHWC and what is added to its result."""
    return residual(bare_nhwc(dtype, **attributes), dtype)


def bare_nhwc(dtype: str, **attributes) -> relay.Expr:
    """A convolution in NHWC."""
    shape = {"shape": (1, 9, 9, 32), "layout": "NHWC", "padding": (1, 1)}
    return convolution(dtype, **shape, **attributes)


def clips(
    dtype: str,
    shape=(1, 32, 5, 9, 8),
    channels: int = 48,
    kernel=(3, 3, 3),
    groups: int = 1,
    layout: str = "NCDHW",
    step: Callable[[relay.Expr, str], relay.Expr] = lambda value, _: value,
    **attributes,
) -> relay.Expr:
    """A convolution of three dimensions, with what follows it."""
    inputs = shape[layout.index("C")]
    last = layout == "NDHWC"
    weight = (*kernel, inputs, channels) if last else (channels, inputs // groups, *kernel)
    result = relay.nn.conv3d(
        variable("x", shape, dtype),
        variable("w", weight, dtype),
        channels=channels,
        kernel_size=kernel,
        groups=groups,
        data_layout=layout,
        kernel_layout="DHWIO" if last else "OIDHW",
        **attributes,
    )
    axis = layout.index("C")
    return step(relay.nn.bias_add(result, variable("b", (channels,), dtype), axis=axis), dtype)


def biased(dtype: str, **attributes) -> relay.Expr:
    result = convolution(dtype, **({"padding": (1, 1)} | attributes))
    return relay.nn.bias_add(result, variable("b", (shape_of(result)[1],), dtype))


def after(step: Callable[[relay.Expr, str], relay.Expr]) -> Make:
    return lambda dtype: step(biased(dtype), dtype)


def transposed(
    dtype: str,
    inputs: int = 32,
    outputs: int = 16,
    kernel: tuple[int, int] = (4, 4),
    strides: tuple[int, int] = (2, 2),
    wide: int = 7,
) -> relay.Expr:
    return relay.nn.conv2d_transpose(
        variable("x", (1, inputs, 7, wide), dtype),
        variable("w", (inputs, outputs, *kernel), dtype),
        channels=outputs,
        kernel_size=kernel,
        strides=strides,
        padding=tuple(int(k > s) for k, s in zip(kernel, strides, strict=True)),
    )


def transposed_then(step: Callable[[relay.Expr, str], relay.Expr], dtype: str, **shape):
    return step(transposed(dtype, **shape), dtype)


def scaled_and_moved(value: relay.Expr, dtype: str) -> relay.Expr:
    """As by a batch norm that TVM does not fold, with ReLU."""
    shape = (shape_of(value)[1], 1, 1)
    return relay.nn.relu(value * variable("s", shape, dtype) + variable("b", shape, dtype))


def transposed_rows(dtype: str, kernel: int = 2, images: int = 1, **attributes) -> relay.Expr:
    """A transposed convolution of NHWC data as it is kept whole, with bias and ReLU."""
    shapes = {"x": (images, 6, 7, 32), "w": (32, 24, kernel, kernel), "b": (1, 1, 1, 24)}
    arguments = [variable(name, shape, dtype) for name, shape in shapes.items()]
    parameters = [variable(f"inner_{name}", shape, dtype) for name, shape in shapes.items()]
    data, weight, bias = parameters
    value = relay.nn.conv2d_transpose(
        relay.transpose(data, (0, 3, 1, 2)),
        weight,
        channels=24,
        kernel_size=(kernel, kernel),
        strides=(2, 2),
        kernel_layout="IOHW",
        **attributes,
    )
    value = relay.nn.relu(relay.add(relay.transpose(value, (0, 2, 3, 1)), bias))
    whole = relay.Function(parameters, value).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return relay.Call(whole, arguments)


def pooled(
    dtype: str, kind: str = "max_pool2d", shape=(1, 32, 15, 13), layout: str = "NCHW", **attributes
) -> relay.Expr:
    data = variable("x", shape, dtype)
    return getattr(relay.nn, kind)(data, layout=layout, **attributes)


def pooled_blocks(dtype: str, block: int = BLOCK, **attributes) -> relay.Expr:
    return pooled(dtype, shape=(1, 3, 15, 13, block), layout=f"NCHW{block}c", **attributes)


def pooled_and_more(dtype: str) -> relay.Expr:
    value = pooled_blocks(dtype, pool_size=(3, 3), padding=(1, 1), strides=(2, 2))
    other = variable("y", shape_of(value), dtype)
    scale = variable("s", (1, 3, 1, 1, BLOCK), dtype)
    return relay.nn.relu(relay.add(relay.multiply(value, scale), other))


def pooled_twice(dtype: str) -> relay.Expr:
    value = pooled(dtype, "avg_pool2d", (1, 14, 14, 32), "NHWC", pool_size=(3, 3), padding=(1, 1))
    return relay.add(value, value)


def softmax(dtype: str, shape=(3, 5, 33), axis: int = -1) -> relay.Expr:
    return relay.nn.softmax(variable("x", shape, dtype), axis=axis)


def rectified(value: relay.Expr, dtype: str) -> relay.Expr:
    del dtype
    return relay.nn.relu(value)


def dense(
    dtype: str,
    rows: int,
    columns: int,
    step: Callable[[relay.Expr, str], relay.Expr] = rectified,
    depth: int = 64,
) -> relay.Expr:
    left, right = (variable(n, (m, depth), dtype) for n, m in (("x", rows), ("w", columns)))
    product = relay.nn.dense(left, right)
    return step(relay.nn.bias_add(product, variable("b", (columns,), dtype)), dtype)


def matrices(dtype: str, transposed: bool) -> relay.Expr:
    right = (4, 12, 24) if transposed else (4, 24, 12)
    return relay.nn.batch_matmul(
        variable("x", (4, 10, 24), dtype), variable("y", right, dtype), transpose_b=transposed
    )


def hard_swish(value: relay.Expr, dtype: str) -> relay.Expr:
    gate = relay.clip(value + constant(3.0, dtype), 0.0, 6.0)
    return value * gate / constant(6.0, dtype)


def gelu(value: relay.Expr, dtype: str) -> relay.Expr:
    bent = relay.erf(value * constant(0.5**0.5, dtype))
    return value * (constant(0.5, dtype) + bent * constant(0.5, dtype))


def gelu_of_halves(value: relay.Expr, dtype: str) -> relay.Expr:
    gate = relay.erf(value * constant(0.5**0.5, dtype)) + constant(1.0, dtype)
    return value * constant(0.5, dtype) * gate


def tanh_gelu(value: relay.Expr, dtype: str) -> relay.Expr:
    """As GPT-2 has it."""
    cubic = constant(0.044715, dtype) * relay.power(value, constant(3.0, dtype))
    bent = relay.tanh(constant((2 / math.pi) ** 0.5, dtype) * (value + cubic))
    return constant(0.5, dtype) * value * (constant(1.0, dtype) + bent)


def fast_gelu(value: relay.Expr, dtype: str) -> relay.Expr:
    """As onnxruntime has it."""
    first, third = (constant(each, dtype) for each in (0.7978845608028654, 0.035677408136300125))
    bent = relay.tanh(value * (third * value * value + first))
    return value * (constant(0.5, dtype) * bent + constant(0.5, dtype))


def mish(value: relay.Expr, dtype: str) -> relay.Expr:
    return value * relay.tanh(relay.log(relay.exp(value) + constant(1.0, dtype)))


def scaled(value: relay.Expr, dtype: str) -> relay.Expr:
    scale = variable("s", (1, 64, 1, 1), dtype)
    return relay.nn.relu(value) * scale - constant(1.5, dtype)


def bent(value: relay.Expr, dtype: str, slopes: tuple[int, ...] = (1, 64, 1, 1)) -> relay.Expr:
    """PReLU as the importer of ONNX writes it."""
    slope = variable("s", slopes, dtype)
    return relay.where(relay.less(value, constant(0.0, dtype)), value * slope, value)


def residual(value: relay.Expr, dtype: str) -> relay.Expr:
    return relay.nn.relu(value + variable("y", shape_of(value), dtype))


@dataclass(frozen=True)
class Computed:
    """What an operator gave, by whom."""

    exact: np.ndarray
    """By TVM in float64."""
    ours: np.ndarray
    calls: tuple[OnednnCall, ...]
    """Calls of oneDNN, complete."""

    @property
    def error(self) -> float:
        """The largest difference, for the largest number."""
        return float(abs(self.ours - self.exact).max() / abs(self.exact).max())


Low = frozenset
"""What lies in memory as bfloat16: ``"data"`` (all operands that are no constants), ``"weights"``,
``"result"``."""


NOTHING: Low[str] = Low()


def random_values(module: tvm.IRModule, *, short: bool = False) -> dict[str, np.ndarray]:
    """Numbers for each parameter; short ones are exact in bfloat16."""
    random = np.random.default_rng(0)
    values = {
        each.name_hint: random.uniform(-1, 1, [int(extent) for extent in each.checked_type.shape])
        for each in module["main"].params
    }
    return {n: np.round(v * 32) / 32 for n, v in values.items()} if short else values


def typed(make: Make, dtype: str) -> tvm.IRModule:
    return relay.transform.InferType()(tvm.IRModule.from_expr(make(dtype)))


def is_fed(name: str) -> bool:
    return name in ("x", "y")


@cache
def stock(make: Make) -> tuple[tvm.IRModule, Any]:
    """The operator in float64, and what runs it by TVM for any numbers."""
    module = typed(make, "float64")
    # It makes two parameters of one that is read twice.
    idle = ["SimplifyExpr"]
    with cached_libinfo(), tvm.transform.PassContext(opt_level=0, disabled_pass=idle):
        return module, stock_executor(relay.build(module, "llvm -opt-level=0"))


@cache
def exact(make: Make, *, short: bool = False) -> np.ndarray:
    """The result by TVM in float64."""
    module, executor = stock(make)
    executor.run(**random_values(module, short=short))
    return executor.get_output(0).numpy()


@cache
def built(make: Make, sink: bool = False, low: Low[str] = NOTHING) -> BuiltModel:
    """The operator's kernels, computing in float32; oneDNN may compute it."""
    module = typed(make, "float32")
    values = random_values(module, short=bool(low))
    params = {n: v.astype("float32") for n, v in values.items() if not is_fed(n)}
    with cached_libinfo(), exact_bits(not sink):
        prepared = prepare(module, params, QUICK_TARGET, sink=sink)
        if low:
            prepared = replace(prepared, module=stored_so(prepared, low))
        return replace(build_prepared(prepared), libraries=(OnednnLibrary(),))


def stored_so(prepared: PreparedModule, low: Low[str]) -> tvm.IRModule:
    """A prepared module that reads and writes bfloat16, with casts around all but new layouts."""

    def cast(value: relay.Expr, dtype: str, type_: tvm.ir.TensorType) -> relay.Expr:
        source = relay.Var("value", type_)
        function = relay.Function([source], relay.cast(source, dtype))
        one = tvm.tir.IntImm("int32", 1)
        whole = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
        return relay.Call(whole.with_attr("Primitive", one), [value])

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        stored: list[int] = []
        names = {each.op.name for each in all_calls(call.op.body)}
        if names == {"layout_transform"}:
            return relay.Call(call.op, arguments)
        for number, given in enumerate(call.args):
            constant = isinstance(given, relay.Constant)
            weight = constant and np.ndim(given.data.numpy()) > 1 and number == 1
            if weight and "weights" in low:
                arguments[number] = rounded_constant(given)
            elif not constant and "data" in low:
                arguments[number] = cast(arguments[number], "bfloat16", given.checked_type)
            else:
                continue
            stored.append(number)
        rounds = "result" in low
        function = with_stored_types(
            call.op, dict.fromkeys(stored, IN_BFLOAT16), IN_BFLOAT16 if rounds else None
        )
        made = relay.Call(function, arguments)
        return cast(made, "float32", function.ret_type) if rounds else made

    module = prepared.module
    return with_body(module, rebuild(module["main"].body, {}, call_of))


def computed(make: Make, lanes: int, *, sink: bool = False, low: Low[str] = NOTHING) -> Computed:
    """What an operator gives, by oneDNN where it can; ``sink`` allows other bits than TVM's."""
    model = built(make, sink, low)
    plan = lower_schedule(model, sequential_schedule(model.graph), lanes=lanes)
    values = random_values(typed(make, "float32"), short=bool(low))
    fed = {n: v for n, v in values.items() if is_fed(n)}
    with plan.executor() as module:
        module.run(**{name: value.astype("float32") for name, value in fed.items()})
        ours = module.get_output(0).numpy()
        calls = [launch.call for launch in module.plan.launches if launch.call is not None]
    return Computed(exact(make, short=bool(low)), ours, tuple(call.descriptor for call in calls))
