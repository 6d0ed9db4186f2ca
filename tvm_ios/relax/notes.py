"""Notes on kernels that say which operators they compute, for operator libraries.

A kernel's loops no longer say that they are a convolution. So ``prepare`` lowers operators with
TVM's own rules, and each kernel gets its :class:`~tvm_ios.core.fused_function.FusedFunction` as an
attribute, ``tvm_ios_computes``; a kernel that TVM fuses of several gets that of all of them. The
attribute is JSON, so that it survives printing and saving, partitions and loops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax, te, topi

from tvm_ios.core.fused_function import AttributeValue, FusedFunction, PrimitiveCall, TensorType
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType
from tvm_ios.errors import ModelError
from tvm_ios.relax.ir import Constant, is_call_tir, kind_of, static_tensors
from tvm_ios.relax.stored.arithmetic import rounded, written
from tvm_ios.relax.stored.quantised import stored_type_of
from tvm_ios.relax.transforms.convolution_kernels import LOWERED
from tvm_ios.support.exact_bits import bits_may_change
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = [
    "COMPUTES",
    "MOVING",
    "fuse_noted",
    "legalize_noted",
    "noted_function",
    "rounded_type",
    "with_notes",
]

COMPUTES, ROUNDS = "tvm_ios_computes", "tvm_ios_rounds"
"""Attributes of kernels, as JSON: the function that they compute, and the whole numbers that stand
for its result."""
WINDOW = ("strides", "padding", "dilation")
LAYOUTS = ("groups", "data_layout", "kernel_layout", "out_layout")
POOLING = ("pool_size", *WINDOW, "ceil_mode", "count_include_pad", "layout", "out_layout")
NOTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nn.conv2d": (*WINDOW, *LAYOUTS),
        "nn.conv3d": (*WINDOW, *LAYOUTS),
        "nn.conv2d_transpose": (*WINDOW, *LAYOUTS, "output_padding"),
        "nn.max_pool2d": POOLING,
        "nn.avg_pool2d": POOLING,
        "nn.adaptive_avg_pool2d": ("layout", "out_layout"),
        "mean": ("axis", "keepdims"),
        "nn.softmax": ("axis",),
        "nn.leakyrelu": ("alpha",),
        "nn.prelu": ("axis",),
    }
    | dict.fromkeys(("matmul", "add", "subtract", "multiply", "divide", "power", "maximum"), ())
    | dict.fromkeys(("minimum", "less", "where", "sigmoid", "tanh", "erf", "exp", "log"), ())
    | dict.fromkeys(("clip", "nn.relu", "nn.gelu", "nn.gelu_tanh", "nn.silu"), ())
)
"""Operators of Relax that are noted, and the attributes that operator libraries read."""
NAMES: Mapping[str, str] = MappingProxyType(
    {"nn.leakyrelu": "nn.leaky_relu", "mean": "nn.global_avg_pool2d"}
)
"""Names in a FusedFunction where they are others."""
POOLED_AXES: Mapping[frozenset[int], str] = MappingProxyType(
    {frozenset((2, 3)): "NCHW", frozenset((1, 2)): "NHWC"}
)
"""Layouts of images, by the axes over which their mean is a pooling."""
STEPS = frozenset({"add", "clip", "divide", "multiply", "relu", "rounded", "subtract"})
"""Kinds of kernels between products and the rounding of their results."""
INJECTIVE = 2
"""TVM's pattern of kernels that products do not take along."""
MOVING = frozenset(
    {
        *("broadcast", "concatenate", "dims", "expand", "flatten", "max", "permute", "pool2d"),
        *("reshape", "slice", "squeeze", "strided", "transpose"),
    }
)
"""Words in kinds of operators whose results are elements of what they read."""
NUMBERS = (tvm.tirx.IntImm, tvm.tirx.FloatImm)

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def noted_function(function: tvm.tirx.PrimFunc) -> FusedFunction | None:
    """Function that a kernel computes, as it was noted; None where nothing was.

    Raises
    ------
    ModelError
        If the note is not one of ours.
    """
    text = function.attrs.get(COMPUTES)
    if text is None:
        return None
    try:
        data = parse_json(str(text), "the note")
        return FusedFunction(
            parameters=tuple(map(_read_type, data.field("parameters").rows())),
            calls=tuple(map(_read_call, data.field("calls").rows())),
            stored=tuple(each.or_none(_read_stored) for each in data.field("stored").rows()),
            rounded_to=data.field("rounded_to").or_none(_read_stored),
        )
    except UnreadableValueError as error:
        raise ModelError(
            f"the attribute {COMPUTES} of a kernel is no note: {error}; prepare the module again "
            "from operators of Relax"
        ) from error


@tvm.transform.module_pass(opt_level=0, name="LegalizeNoted")  # type: ignore[untyped-decorator]
def legalize_noted(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """The pass ``LegalizeOps``, after which kernels of single operators have notes."""
    del context
    notes: dict[str, FusedFunction] = {}
    rules = {f"relax.{name}": _noting(name, notes) for name in NOTED}
    rules["relax.take"] = _take_within
    rules |= {"relax.max": partial(_extreme, topi.max), "relax.min": partial(_extreme, topi.min)}
    rounding = _Rounding(notes)
    rules |= {"relax.quantize": rounding.quantize, "relax.dequantize": rounding.dequantize}
    noted = with_notes(relax.transform.LegalizeOps(rules)(module), notes)
    noted = _with_rounded(noted, rounding.rounded)
    for name in rounding.apart:
        noted.update_func(
            noted.get_global_var(name), noted[name].with_attr("op_pattern", INJECTIVE)
        )
    return noted


@tvm.transform.module_pass(opt_level=0, name="FuseNoted")  # type: ignore[untyped-decorator]
def fuse_noted(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """The pass ``FuseTIR``, after which fused kernels have the notes of all that they compute."""
    del context
    functions = {
        variable.name_hint: function
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})
    }
    notes = {name: _fused(module, function) for name, function in functions.items()}
    rounded = {name: _rounded_by_last(module, function) for name, function in functions.items()}
    fused = with_notes(relax.transform.FuseTIR()(module), notes)
    return _with_rounded(fused, {name: each for name, each in rounded.items() if each})


def rounded_type(kernel: tvm.tirx.PrimFunc) -> StoredType | None:
    """Whole numbers that stand for the numbers which a kernel makes; None where it rounds none."""
    text = kernel.attrs.get(ROUNDS)
    return None if text is None else _read_stored(parse_json(str(text), "the note"))


def _with_rounded(module: tvm.IRModule, rounded: Mapping[str, StoredType]) -> tvm.IRModule:
    for variable, function in module.functions_items():
        stored = rounded.get(variable.name_hint)
        if stored is not None and isinstance(function, tvm.tirx.PrimFunc):
            text = json.dumps(asdict(stored))
            module.update_func(variable, function.with_attr(ROUNDS, text))
    return module


def _rounded_by_last(module: tvm.IRModule, function: relax.Function) -> StoredType | None:
    """Type that a fused function rounds its result to, perhaps before moving it, if it rounds."""
    made = {each.var: each.value for block in function.body.blocks for each in block.bindings}
    value = made.get(function.body.body)
    while isinstance(value, relax.Call) and is_call_tir(value):
        stored = rounded_type(module[value.args[0]])
        if stored is not None or not set(kind_of(value.args[0].name_hint).split("_")) <= MOVING:
            return stored
        value = made.get(value.args[1].fields[0])
    return None


def with_notes(module: tvm.IRModule, notes: Mapping[str, FusedFunction | None]) -> tvm.IRModule:
    """The module, in which kernels have notes, by their names."""
    for variable, function in module.functions_items():
        note = notes.get(variable.name_hint)
        if note is not None and isinstance(function, tvm.tirx.PrimFunc):
            module.update_func(variable, function.with_attr(COMPUTES, _to_json(note)))
    return module


def _take_within(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """TVM's own rule for ``take``, which never reads outside: prices come from made-up indices."""
    mode = "clip" if call.attrs.mode == "fast" else call.attrs.mode
    return builder.call_te(topi.take, *call.args, call.attrs.axis, mode=mode)


def _power(own: Rule, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """TVM's own rule for ``power``, but for cubes: it would warn of each again and again."""
    base, exponent = call.args
    is_number = isinstance(exponent, Constant) and not exponent.value.shape
    is_cube = is_number and call.ty.dtype == "float32" and exponent.value.numpy() == 3
    if not is_cube or not bits_may_change():
        return own(builder, call)

    def cubed(data: te.Tensor) -> te.Tensor:
        def compute(*place: Any) -> Any:
            return data(*place) * data(*place) * data(*place)

        return te.compute(data.shape, compute, name="T_power")

    return builder.call_te(cubed, base, primfunc_name_hint="power")


def _extreme(
    extreme: Callable[..., Any], builder: relax.BlockBuilder, call: relax.Call
) -> relax.Expr:
    """TVM's own rule for ``max`` and ``min``, which takes one axis after the other if all are.

    Extremes are then those of rows, which several lanes gather in vectors.
    """
    (value,), axes, keeps = call.args, call.attrs.axis, bool(call.attrs.keepdims)
    if not keeps and len(axes or value.ty.shape) == len(value.ty.shape):
        axes = (-1,)
        while len(value.ty.shape) > 1:
            value = builder.emit(builder.call_te(extreme, value, -1))
    return builder.call_te(extreme, value, axes and [int(each) for each in axes], keeps)


class _Rounding:
    """Rules for whole numbers that stand for others, rounded to even as ONNX wants it."""

    def __init__(self, notes: dict[str, FusedFunction]) -> None:
        self._notes = notes
        self._made: dict[str, StoredType] = {}
        """Whole numbers that kernels make, by name."""
        self.rounded: dict[str, StoredType] = {}
        """Whole numbers that stand for numbers which kernels make, by name."""
        self.apart: set[str] = set()
        """Names of kernels that TVM has to fuse with what they read, not with what reads them."""

    def quantize(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        stored = stored_type_of(call)
        if stored is None:
            return tvm.ir.Op.get("relax.quantize").get_attr("FLegalize")(builder, call)
        compute = partial(written, stored=stored)
        made = builder.call_te(compute, call.args[0], primfunc_name_hint="quantize")
        self._made[made.args[0].name_hint] = stored
        return made

    def dequantize(self, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        stored, whole = stored_type_of(call), call.args[0]
        made = builder.lookup_binding(whole) if isinstance(whole, relax.Var) else None
        name = made.args[0].name_hint if isinstance(made, relax.Call) and is_call_tir(made) else ""
        if stored is None or made is None or self._made.get(name) != stored:
            found = tvm.ir.Op.get("relax.dequantize").get_attr("FLegalize")(builder, call)
            if stored is not None:
                self.rounded[found.args[0].name_hint] = stored
            return found
        (data,) = made.args[1].fields
        compute = partial(rounded, stored=stored)
        found = builder.call_te(compute, data, primfunc_name_hint="rounded")
        name = found.args[0].name_hint
        self.rounded[name] = stored
        if not _follows_product(builder, data):
            self.apart.add(name)
        type_ = TensorType(*_shape_and_type(call))
        self._notes[name] = FusedFunction(
            parameters=(type_,),
            calls=(
                PrimitiveCall(
                    operator=FAKE_QUANTIZE,
                    operands=(0,),
                    result=type_,
                    attributes=tuple(asdict(stored).items()),
                ),
            ),
        )
        return found


def _follows_product(builder: relax.BlockBuilder, value: relax.Expr) -> bool:
    """True for a product, and steps after one."""
    made = builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    if not isinstance(made, relax.Call) or not is_call_tir(made):
        return False
    kind = kind_of(made.args[0].name_hint)
    if kind.startswith(("conv", "matmul")):
        return True
    return kind in STEPS and any(_follows_product(builder, each) for each in made.args[1].fields)


def _shape_and_type(call: relax.Call) -> tuple[tuple[int, ...], str]:
    (found,) = static_tensors(call.ty) or ()
    return found.shape, found.dtype


def _noting(name: str, notes: dict[str, FusedFunction]) -> Rule:
    """TVM's own rule for an operator, with a note of the kernel that it makes.

    The kernel itself is left alone, since the builder would not find it again for its twins.
    """
    own = tvm.ir.Op.get(f"relax.{name}").get_attr("FLegalize")
    special = _power if name == "power" else LOWERED.get(name)
    rule = partial(special, own) if special else own

    def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        lowered = rule(builder, call)
        note = _note(name, call, lowered)
        if note is not None:
            notes.setdefault(lowered.args[0].name_hint, note)
        return lowered

    return lower


def _note(name: str, call: relax.Call, lowered: relax.Expr) -> FusedFunction | None:
    """Function of one operator; None where its kernel takes other arguments than it."""
    result = static_tensors(call.ty)
    if not isinstance(lowered, relax.Call) or not is_call_tir(lowered) or result is None:
        return None
    attributes = {each: _value(getattr(call.attrs, each)) for each in NOTED[name]}
    arguments = list(call.args)
    if name == "clip":
        *arguments, low, high = arguments
        if not isinstance(low, NUMBERS) or not isinstance(high, NUMBERS):
            return None
        attributes |= {"a_min": low.value, "a_max": high.value}
    if name == "mean":
        layout = _pooled_layout(len(result[0].shape), attributes["axis"], attributes["keepdims"])
        if layout is None:
            return None
        attributes = {"layout": layout}
    # TVM writes numbers into the kernel; all else it reads, in order.
    numbers = [_number(each) for each in arguments]
    read = [each for each, number in zip(arguments, numbers, strict=True) if number is None]
    given = list(lowered.args[1].fields)
    types = [static_tensors(each.ty) for each in read]
    if len(read) != len(given) or None in types or not all(map(_same, read, given)):
        return None
    places, calls = iter(range(len(read))), list[PrimitiveCall]()
    operands = []
    for argument, number in zip(arguments, numbers, strict=True):
        operands.append(next(places) if number is None else len(read) + len(calls))
        if number is not None:
            constant = TensorType((), str(argument.value.dtype))
            value = (("value", number),)
            calls.append(
                PrimitiveCall(operator="constant", operands=(), result=constant, attributes=value)
            )
    calls.append(
        PrimitiveCall(
            operator=NAMES.get(name, name),
            operands=tuple(operands),
            result=TensorType(result[0].shape, result[0].dtype),
            attributes=tuple(attributes.items()),
        )
    )
    parameters = tuple(TensorType(each[0].shape, each[0].dtype) for each in types if each)
    return FusedFunction(parameters=parameters, calls=tuple(calls))


def _pooled_layout(rank: int, axes: AttributeValue, keeps: AttributeValue) -> str | None:
    """Layout of images whose mean over these axes is a pooling; None for other means."""
    if rank != 4 or not keeps or not isinstance(axes, tuple):
        return None
    return POOLED_AXES.get(frozenset(axis % rank for axis in axes if isinstance(axis, int)))


def _same(one: relax.Expr, other: relax.Expr) -> bool:
    return bool(one.same_as(other))


def _number(argument: relax.Expr) -> float | None:
    """Number that TVM's rules write into a kernel; None for a tensor."""
    if isinstance(argument, Constant) and not argument.value.shape:
        return float(argument.value.numpy())
    return None


def _fused(module: tvm.IRModule, function: relax.Function) -> FusedFunction | None:
    """Function of all kernels that a fused function of Relax calls; None where one has no note."""
    types = [static_tensors(parameter.ty) for parameter in function.params]
    if any(each is None or len(each) != 1 for each in types):
        return None
    values: dict[Any, int] = {each: number for number, each in enumerate(function.params)}
    calls: list[PrimitiveCall] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if not isinstance(call, relax.Call) or not is_call_tir(call):
                return None
            noted = noted_function(module[call.args[0]])
            arguments = call.args[1].fields
            if noted is None or any(each not in values for each in arguments):
                return None
            inner = [values[each] for each in arguments]
            for each in noted.calls:
                operands = tuple(inner[operand] for operand in each.operands)
                inner.append(len(types) + len(calls))
                calls.append(replace(each, operands=operands))
            values[binding.var] = inner[-1]
    if not calls or values.get(function.body.body) != len(types) + len(calls) - 1:
        return None
    parameters = tuple(TensorType(each[0].shape, each[0].dtype) for each in types if each)
    return FusedFunction(parameters=parameters, calls=tuple(calls))


def _value(value: Any) -> AttributeValue:
    """Attribute of an operator of Relax as a plain value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, NUMBERS):
        return float(value.value) if isinstance(value, tvm.tirx.FloatImm) else int(value.value)
    return tuple(map(_value, value))


def _to_json(function: FusedFunction) -> str:
    calls = [
        {
            "operator": call.operator,
            "operands": call.operands,
            "result": [call.result.shape, call.result.dtype],
            "attributes": dict(call.attributes),
        }
        for call in function.calls
    ]
    parameters = [[each.shape, each.dtype] for each in function.parameters]
    stored = [None if each is None else asdict(each) for each in function.stored]
    rounded_to = None if function.rounded_to is None else asdict(function.rounded_to)
    return json.dumps(
        {"parameters": parameters, "calls": calls, "stored": stored, "rounded_to": rounded_to}
    )


def _read_type(data: StoredValue) -> TensorType:
    shape, dtype = data.rows(2)
    return TensorType(shape.wholes(), dtype.text())


def _read_stored(data: StoredValue) -> StoredType:
    return StoredType(
        dtype=data.field("dtype").text(),
        scale=data.field("scale").number(),
        zero_point=data.field("zero_point").signed(),
    )


def _read_call(data: StoredValue) -> PrimitiveCall:
    attributes = data.field("attributes").fields()
    return PrimitiveCall(
        operator=data.field("operator").text(),
        operands=data.field("operands").wholes(),
        result=_read_type(data.field("result")),
        attributes=tuple((name, _read_attribute(each.value)) for name, each in attributes.items()),
    )


def _read_attribute(value: Any) -> AttributeValue:
    return tuple(map(_read_attribute, value)) if isinstance(value, list) else value
