"""Computation of a model's first layers for one image of a batch after the other.

Eight images outgrow the caches in the first layers, so each layer reads from memory what the one
before wrote, while weights there are small. So the first layers run for one image (or a few) before
the next one begins; from where weights outweigh results, all images go on together. Bytes alone
decide which layers these are. The parts of a batch are independent, so lanes may take one each.
Results are equal bit by bit where kernels sum in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.relay.dataflow import (
    children,
    copy_call,
    fusion_pattern,
    graph_order,
    is_call_of,
    rebuild,
)
from tvm_ios.relay.functions.primitive import call_attribute, type_bytes
from tvm_ios.relay.inputs import CheckedModule
from tvm_ios.relay.transforms.bound_model import bound_model, in_parts

__all__ = ["has_several_images", "run_image_by_image"]

MOST_PARTS = 8
"""Largest number of parts of a batch: each has kernel calls of its own."""
RESHAPE = "reshape"


def has_several_images(typed: tvm.IRModule, params: Mapping[str, Any] | None) -> bool:
    """True if all inputs of ``main`` have equally many images on their first axis, above one.

    Inputs are the parameters of ``main`` without a value in ``params``.
    """
    known = params or {}
    return _images([each for each in typed["main"].params if each.name_hint not in known]) > 1


def run_image_by_image(
    mod: tvm.IRModule | CheckedModule, params: Mapping[str, Any] | None
) -> tuple[tvm.IRModule, int]:
    """Module whose first layers run for one part of its batch after the other.

    Parameters are bound, as by :func:`bound_model`; with it comes the number of parts. That is one
    where nothing would be gained, or an operator may mix images before that.
    """
    bound = bound_model(mod, params)
    images = _images(bound["main"].params)
    plain = in_parts(bound)["main"] if images > 1 else bound["main"]
    parts = next(count for count in range(min(images, MOST_PARTS), 0, -1) if images % count == 0)
    first = _First.of(plain, images, parts) if parts > 1 else None
    if first is None:
        return bound, 1
    joined = relay.concatenate(first.computed(parts), axis=0)
    body = rebuild(plain.body, {first.end: joined}, copy_call)
    function = relay.Function(plain.params, body)
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    # Rules see to it; what they overlooked must not become another model.
    return (module, parts) if module["main"].ret_type == plain.ret_type else (bound, 1)


@dataclass(frozen=True, slots=True)
class _First:
    """First part of a model, which is computed image by image."""

    inputs: tuple[relay.Var, ...]
    apart: frozenset[relay.Expr]
    """Expressions with one image at each place of their first axis."""
    end: relay.Call
    """Call that ends the part: later calls read nothing else of it."""
    images: int

    @classmethod
    def of(cls, main: relay.Function, images: int, parts: int) -> _First | None:
        """First part that ends where fewest bytes pass the caches; None if that is nowhere."""
        order = graph_order(main.body)
        last_reader = {each: at for at, reader in enumerate(order) for each in children(reader)}
        apart: set[relay.Expr] = set(main.params)
        gained = most = 0
        end, read_until = None, -1
        for at, expression in enumerate(order):
            if not apart.isdisjoint(children(expression)):
                if not _keeps_images(expression, apart, images):
                    break
                apart.add(expression)
            if expression not in apart:
                continue
            gained += _moved(expression) - (parts - 1) * _weights(expression)
            if isinstance(expression, relay.Call) and read_until <= at and gained > most:
                most, end = gained, expression
            read_until = max(read_until, last_reader.get(expression, len(order)))
        return None if end is None else cls(tuple(main.params), frozenset(apart), end, images)

    def computed(self, parts: int) -> list[relay.Expr]:
        """Result of the part's end, for each part of the batch."""
        size = self.images // parts
        shared = {each: each for each in graph_order(self.end) if each not in self.apart}
        made = []
        for begin in range(0, self.images, size):
            pieces = {
                each: relay.strided_slice(each, [begin], [begin + size], axes=[0])
                for each in self.inputs
            }
            made.append(rebuild(self.end, shared | pieces, self._for_part(size)))
        return made

    def _for_part(self, size: int) -> Callable[[relay.Call, list[relay.Expr]], relay.Expr]:
        def copied(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
            if is_call_of(call, RESHAPE):  # the only rule for operators that are told the batch
                return relay.reshape(arguments[0], (size, *call.checked_type.shape[1:]))
            return copy_call(call, arguments)

        return copied


def _images(inputs: Sequence[relay.Var]) -> int:
    """Extent of the first axis of all inputs; 0 where they differ, or one has no axis."""
    extents = {
        int(each.checked_type.shape[0]) if len(each.checked_type.shape) else 0 for each in inputs
    }
    return extents.pop() if len(extents) == 1 else 0


def _weights(expression: relay.Expr) -> int:
    """Bytes of the constants that a call reads."""
    constants = [each for each in children(expression) if isinstance(each, relay.Constant)]
    return sum(type_bytes(each.checked_type) for each in constants)


def _moved(expression: relay.Expr) -> int:
    """Bytes that an operator reads and writes for all images; 0 for operators that TVM fuses."""
    if not isinstance(expression, relay.Call) or fusion_pattern(expression) <= OpPattern.INJECTIVE:
        return 0
    read = sum(type_bytes(each.checked_type) for each in expression.args)
    return read - _weights(expression) + type_bytes(expression.checked_type)


def _keeps_images(expression: relay.Expr, apart: AbstractSet[relay.Expr], images: int) -> bool:
    """True if each image of the result needs only that image of the operands, and lies as it does.

    False for operators without a rule.
    """
    if not isinstance(expression, relay.Call):  # a tuple, or a field of one
        return all(each in apart for each in children(expression))
    result = expression.checked_type
    if not isinstance(result, relay.TensorType) or not result.shape or result.shape[0] != images:
        return False
    own = [each in apart for each in expression.args]
    rule = _RULES.get(expression.op.name) if isinstance(expression.op, tvm.ir.Op) else None
    if rule is not None:
        return own[0] and not any(own[1:]) and rule(expression)
    if not is_call_of(expression, *_ELEMENT_BY_ELEMENT):
        return False
    return all(map(partial(_is_spread_alike, expression), expression.args, own))


def _is_spread_alike(call: relay.Call, argument: relay.Expr, apart: bool) -> bool:
    """True if an operand of an elementwise operator has images along its axis 0, or is for all."""
    missing = len(call.checked_type.shape) - len(argument.checked_type.shape)
    return not missing if apart else missing > 0 or int(argument.checked_type.shape[0]) == 1


def _axis_is_inner(call: relay.Call) -> bool:
    return int(call_attribute(call, "axis")) % len(call.checked_type.shape) > 0


def _new_axis_is_inner(call: relay.Call) -> bool:
    """True if new axes keep the images first; the place counts the old axes and one new."""
    return int(call_attribute(call, "axis")) % (len(call.args[0].checked_type.shape) + 1) > 0


def _axes_are_inner(call: relay.Call) -> bool:
    """True if a reduction, or a squeezing, keeps the first axis."""
    given, rank = call_attribute(call, "axis"), len(call.args[0].checked_type.shape)
    if given is None or call_attribute(call, "exclude", default=False):
        return False
    axes = [int(axis) % rank for axis in ([given] if isinstance(given, int) else given)]
    return bool(axes) and 0 not in axes


def _layouts_begin_with_images(call: relay.Call) -> bool:
    names = ("data_layout", "out_layout", "layout", "src_layout", "dst_layout")
    layouts = [str(call_attribute(call, name, "")) for name in names]
    return all(layout[:1] in ("", "N") and "n" not in layout for layout in layouts)


def _keeps_first_extent(call: relay.Call) -> bool:
    return int(call.args[0].checked_type.shape[0]) == int(call.checked_type.shape[0])


def _pads_inside(call: relay.Call) -> bool:
    return all(int(zeros) == 0 for zeros in call_attribute(call, "pad_width")[0])


def _cuts_inside(call: relay.Call) -> bool:
    axes = call_attribute(call, "axes")
    return axes is not None and all(int(axis) > 0 for axis in axes)


def _moves_inner_axes(call: relay.Call) -> bool:
    axes = call_attribute(call, "axes")
    return axes is not None and int(axes[0]) == 0


def _is_plain(call: relay.Call) -> bool:
    return len(call.checked_type.shape) == 2


_ELEMENT_BY_ELEMENT = (
    *("abs", "annotation.stop_fusion", "cast", "ceil", "clip", "copy", "cos", "erf", "exp"),
    *("floor", "log", "logical_not", "negative", "nn.leaky_relu", "nn.relu", "round", "rsqrt"),
    *("sigmoid", "sign", "sin", "sqrt", "tan", "tanh", "trunc"),
    *("add", "divide", "equal", "floor_divide", "floor_mod", "greater", "greater_equal", "less"),
    *("less_equal", "logical_and", "logical_or", "maximum", "minimum", "mod", "multiply"),
    *("not_equal", "power", "subtract", "where"),
)
"""Operators whose operands are broadcast; TVM's pattern of that name has more, such as ``tile``."""
_RULES: Mapping[str, Callable[[relay.Call], bool]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "image.resize2d",
                "layout_transform",
                "nn.adaptive_avg_pool2d",
                "nn.adaptive_avg_pool3d",
                "nn.adaptive_max_pool2d",
                "nn.avg_pool2d",
                "nn.avg_pool3d",
                "nn.conv2d",
                "nn.conv2d_transpose",
                "nn.conv3d",
                "nn.depth_to_space",
                "nn.global_avg_pool2d",
                "nn.global_max_pool2d",
                "nn.max_pool2d",
                "nn.max_pool3d",
                "nn.space_to_depth",
                "nn.upsampling",
            ),
            _layouts_begin_with_images,
        ),
        **dict.fromkeys(
            ("concatenate", "nn.bias_add", "nn.log_softmax", "nn.lrn", "nn.prelu", "nn.softmax"),
            _axis_is_inner,
        ),
        "expand_dims": _new_axis_is_inner,
        **dict.fromkeys(("max", "mean", "min", "squeeze", "sum"), _axes_are_inner),
        "nn.batch_flatten": _keeps_first_extent,
        "nn.dense": _is_plain,
        "nn.pad": _pads_inside,
        "reshape": _keeps_first_extent,
        "strided_slice": _cuts_inside,
        "transpose": _moves_inner_axes,
    }
)
"""Conditions under which an operator keeps images apart, if only its first operand has any."""
