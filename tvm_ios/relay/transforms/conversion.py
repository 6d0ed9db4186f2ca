"""Conversion of a model's layout and data types, before everything else in prepare.

TVM's own passes do it, as in tvmc, on a module with bound parameters: their changes of weights are
folded later on. Inputs and outputs keep their shapes and types.

A combination for which TVM 0.17 has no kernel, or a wrong one, is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import tvm
from tvm import relay
from tvm.ir.transform import Sequential
from tvm.relay.transform.mixed_precision import DEFAULT_ALWAYS_LIST, MIXED_PRECISION_ALWAYS

from tvm_ios.core.conversion import Conversion
from tvm_ios.errors import OptionError
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.relay.context import pass_context, reason_of
from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.transforms.fold import fold_exactly
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["CONVOLUTIONS", "convert", "count_other_layouts", "lay_out", "require_float32_kernels"]

HALF = "float16"
LAID_OUT = (
    "nn.avg_pool2d",
    "nn.conv2d",
    "nn.conv2d_transpose",
    "nn.global_avg_pool2d",
    "nn.global_max_pool2d",
    "nn.max_pool2d",
    "qnn.conv2d",
)
"""Operators that are given a layout; all others follow."""
CONVOLUTIONS = ("nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d")
CONVERSION_TYPE = "FTVMMixedPrecisionConversionType"
CONVERT_LAYOUT = "FTVMConvertOpLayout"
TENSOR_CORE_BATCH, TENSOR_CORE_CHANNELS = 8, 16
"""Numbers whose multiples TVM's template for tensor cores takes; for output channels any."""


def convert(
    module: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray],
    target: tvm.target.Target,
    conversion: Conversion,
) -> tvm.IRModule:
    """Typed module in other layouts and types, with parameters bound; the first of all passes."""
    # TVM's modules change in place, and this one is the caller's.
    bound = tvm.IRModule(module.functions, module.type_definitions)
    main = relay.build_module.bind_params_by_name(module["main"], dict(params))
    bound[module.get_global_var("main")] = main
    keep_outputs = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}
    with target, pass_context(config=keep_outputs):
        try:
            converted = relay.transform.InferType()(bound)
            if conversion.mixed_precision:
                # First what a batch norm is made of, so that its statistics stay float32.
                converted = _run(
                    converted, relay.transform.SimplifyInference(), relay.transform.FoldConstant()
                )
            if conversion.desired_layout is not None:
                wanted = {name: [conversion.desired_layout, "default"] for name in LAID_OUT}
                # TVM would warn of each of the others, which follow with the attribute or without.
                with _with_attribute(_followers(), CONVERT_LAYOUT, None):
                    converted = _run(converted, relay.transform.ConvertLayout(wanted))
                converted = fold_exactly(converted)
            if conversion.mixed_precision:
                with _accumulating_in(conversion.mixed_precision_acc_type):
                    converted = _run(converted, relay.transform.ToMixedPrecision(HALF))
        except (tvm.TVMError, ValueError) as error:  # rules of TVM in Python raise the latter
            raise OptionError(
                f"TVM cannot convert this model to {conversion.as_text()}: {reason_of(error)}; "
                "leave it as it is, or convert it where it was made"
            ) from error
    _require_right_kernels(converted, target)
    return fold_exactly(converted)


def lay_out(module: tvm.IRModule, layouts: Mapping[relay.Call, str]) -> tvm.IRModule:
    """Typed module with convolutions of ``main`` in these layouts; other operators follow them.

    Calls that share their attributes share the layout of one of them.
    """
    wanted = {call.attrs: layout for call, layout in layouts.items()}
    names = [name for name in CONVOLUTIONS if any(is_call_of(each, name) for each in layouts)]

    def rule(stock: Any, name: str) -> Any:
        def laid_out(attrs: Any, inputs: Any, types: Any, _desired: Any) -> relay.Expr:
            if attrs not in wanted:
                return relay.Call(relay.op.get(name), inputs, attrs)
            return stock(attrs, inputs, types, [wanted[attrs], "default"])

        return laid_out

    followers = [name for name in (*_followers(), *LAID_OUT) if name not in names]
    with ExitStack() as stack:
        stack.enter_context(pass_context())
        stack.enter_context(_with_attribute(followers, CONVERT_LAYOUT, None))
        for name in names:
            own = rule(relay.op.get(name).get_attr(CONVERT_LAYOUT), name)
            stack.enter_context(_with_attribute([name], CONVERT_LAYOUT, own))
        passes = relay.transform.ConvertLayout({name: ["NHWC", "default"] for name in names})
        return fold_exactly(_run(module, passes))


def count_other_layouts(module: tvm.IRModule, layout: str) -> int:
    """Number of convolutions of ``main`` whose data have another plain layout than this one."""
    layouts = [
        str(call_attribute(call, "data_layout"))
        for call in all_calls(module["main"])
        if is_call_of(call, *CONVOLUTIONS)
    ]
    return sum(found.isalpha() and found != layout for found in layouts)  # NCHW16c is not plain


def _run(module: tvm.IRModule, *passes: Any) -> tvm.IRModule:
    return Sequential([*passes, relay.transform.InferType()])(module)


def _followers() -> list[str]:
    """Operators that could ask for a layout, and do not."""
    return [
        name
        for name in tvm.ir.Op.list_op_names()
        if name not in LAID_OUT and relay.op.get(name).get_attr(CONVERT_LAYOUT) is not None
    ]


def _accumulating_in(acc_type: str) -> AbstractContextManager[None]:
    """Context in which TVM's pass takes sums in a type, which it stores with the operators."""

    def rule(_call: relay.Call, mixed_type: str) -> list[Any]:
        return [MIXED_PRECISION_ALWAYS, acc_type, mixed_type]

    return _with_attribute(DEFAULT_ALWAYS_LIST, CONVERSION_TYPE, rule)


@contextmanager
def _with_attribute(names: Iterable[str], attribute: str, value: Any) -> Iterator[None]:
    """Let operators have another value of an attribute, or none, inside."""
    operators = [relay.op.get(name) for name in names]
    before = [operator.get_attr(attribute) for operator in operators]
    for operator in operators:
        _set_attribute(operator, attribute, value)
    try:
        yield
    finally:
        for operator, old in zip(operators, before, strict=True):
            _set_attribute(operator, attribute, old)


def _set_attribute(operator: tvm.ir.Op, attribute: str, value: Any) -> None:
    # TVM refuses a second value while there is one of the same level.
    operator.reset_attr(attribute)
    if value is not None:
        operator.set_attr(attribute, value)


def _require_right_kernels(module: tvm.IRModule, target: tvm.target.Target) -> None:
    if not is_gpu_target(target):
        return
    for call in all_calls(module["main"]):
        if is_call_of(call, "nn.conv2d"):
            _require_right_convolution(call)


def _require_right_convolution(call: relay.Call) -> None:
    if call_attribute(call, "data_layout") != "NHWC":
        return
    data = call.args[0].checked_type
    batch, _, _, inputs = (int(extent) for extent in data.shape)
    groups = int(call_attribute(call, "groups", 1))
    if groups not in (1, inputs):
        raise OptionError(
            f"a convolution of {inputs} channels in {groups} groups has no NHWC kernel for GPUs "
            "in TVM; give desired_layout='NCHW'"
        )
    rounded = not batch % TENSOR_CORE_BATCH and not inputs % TENSOR_CORE_CHANNELS
    # Whatever the output channels are now: those of a merged convolution may fit.
    if groups == 1 and str(data.dtype) == "float32" and rounded:
        raise OptionError(
            f"a float32 NHWC convolution of batch {batch} and {inputs} channels would run on "
            "tensor cores, for which TVM rounds its operands to float16 without a word; give "
            "desired_layout='NCHW', or mixed_precision=True if float16 is what you want"
        )


def require_float32_kernels(
    module: tvm.IRModule, kernels: Iterable[LoweredKernel], target: tvm.target.Target
) -> None:
    """Refuse GPU kernels that compute in float16 where the model says float32.

    TVM's templates for tensor cores do that, and tuning records may choose them.
    """
    if not is_gpu_target(target):
        return
    text = str(module.astext(show_meta_data=False))
    if HALF in text or 'data_layout="NHWC"' not in text:
        return
    for kernel in kernels:
        if "conv2d" in kernel.stem and HALF in kernel.function.script():
            raise OptionError(
                f"kernel {kernel.stem} rounds float32 to float16 for tensor cores; give "
                "desired_layout='NCHW', or mixed_precision=True if float16 is what you want"
            )
