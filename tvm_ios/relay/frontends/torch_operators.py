"""Operators of PyTorch as TVM's importer converts them: which it knows, and what it overlooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tvm.relay.frontend.pytorch import get_all_op_names

from tvm_ios.relay.frontends.torch_converters import known_operators

__all__ = ["missing_operators"]

# TVM draws these from a seed that is a constant of what is compiled: the same in every run.
_RANDOM = frozenset({"aten::multinomial", "aten::randn"})
_AS_GIVEN = "the data type of the input"
_NAMED_AXES = tuple(range(8))
_FLOAT32 = 6  # torch's numbers of data types
_WHOLE = (0, 1, 2)
_OVERLOOKED: dict[str, dict[str, tuple[Any, ...]]] = {
    "aten::_weight_norm": {"dim": _NAMED_AXES},
    "aten::argsort": {"stable": ()},
    "aten::avg_pool2d": {"divisor_override": (None,)},
    "aten::avg_pool3d": {"divisor_override": (None,)},
    "aten::cross_entropy_loss": {"label_smoothing": (0,)},
    "aten::elu": {"scale": (1,), "input_scale": (1,)},
    "aten::linalg_vector_norm": {"dtype": (None, _AS_GIVEN)},
    "aten::log_softmax": {"dtype": (None, _AS_GIVEN)},
    "aten::mean": {"dtype": (None,)},
    "aten::meshgrid": {"indexing": (None, "ij")},
    "aten::norm": {"dtype": (None, _AS_GIVEN)},
    "aten::prod": {"dtype": (None, _AS_GIVEN)},
    "aten::round": {"decimals": (0,)},
    "aten::scaled_dot_product_attention": {"enable_gqa": (False,)},
    "aten::scatter_reduce": {"reduce": ("sum", "prod", "amax", "amin")},
    "aten::softmax": {"dtype": (None, _AS_GIVEN)},
    "aten::sort": {"stable": ()},
    "aten::std": {"correction": (0, 1)},
    "aten::sum": {"dtype": (None, _AS_GIVEN)},
    "aten::var": {"correction": (0, 1)},
    "aten::var_mean": {"correction": (0, 1)},
    **{
        f"quantized_decomposed::dequantize_per_{kind}": {"out_dtype": (None, _FLOAT32)}
        for kind in ("channel", "tensor")
    },
}
"""Arguments that TVM's converters ignore or take for others, and the values with which that is
right; of ``stable`` none, since it stands where the axis does otherwise."""


def missing_operators(trace: Any) -> tuple[str, ...]:
    """Operators of a trace that TVM's importer does not know, or not as they are used; sorted."""
    names = set(get_all_op_names(trace.graph)) - (known_operators() - _RANDOM)
    missing = {name for name in names if not name.startswith("prim::")}
    for kind, arguments in _OVERLOOKED.items():
        for node in trace.graph.findAllNodes(kind):
            missing.update(_overlooked(node, arguments))
    for kind, (what, is_unfit) in _UNFIT.items():
        if any(is_unfit(*node.inputs()) for node in trace.graph.findAllNodes(kind)):
            missing.add(f"{kind} {what}")
    return tuple(sorted(missing))


def _overlooked(node: Any, arguments: dict[str, tuple[Any, ...]]) -> list[str]:
    """The operator with each argument that TVM overlooks, and that is not as TVM has it."""
    if node.schema() == "(no schema)":
        return []
    names = [each.name for each in _schema(node.schema()).arguments]
    found = []
    for name, value in zip(names, node.inputs(), strict=False):
        allowed = arguments.get(name)
        if allowed is None or value.toIValue() in allowed:
            continue
        if _AS_GIVEN in allowed and _dtype(next(node.inputs())) == _dtype(node.output()):
            continue
        found.append(f"{node.kind()} with {name}={value.toIValue()}")
    return found


@cache
def _schema(text: str) -> Any:
    import torch  # noqa: PLC0415 - who has a trace has torch

    return torch._C.parse_schema(text)  # noqa: SLF001 - torch gives no other way


def _dtype(value: Any) -> Any:
    return value.type().dtype() if value.type().kind() == "TensorType" else None


def _shape(value: Any) -> list[int]:
    return (value.type().sizes() or []) if value.type().kind() == "TensorType" else []


def _elements(value: Any) -> list[Any]:
    return list(value.node().inputs()) if value.node().kind() == "prim::ListConstruct" else []


def _is_whole(value: Any) -> bool:
    """Whether a value is a number or a tensor of numbers that are whole."""
    if _dtype(value) is None:
        return str(value.type()) == "int"
    return not _dtype(value).is_floating_point


def _scales(data: Any, *rest: Any) -> bool:
    """Whether an image is scaled to a size that is rounded, of which the scale tells nothing."""
    factors = [each.toIValue() for each in _elements(rest[-1])]
    corners = len(rest) > 2 and rest[1].toIValue()  # then the scale is that of the size
    extents = _shape(data)[-len(factors) :] if factors else []
    return not corners and any(
        not isinstance(factor, float) or extent * factor % 1
        for extent, factor in zip(extents, factors, strict=False)
    )


def _masks(data: Any, indices: Any, *rest: Any) -> bool:  # noqa: ARG001
    return any(str(_dtype(each)) in ("torch.bool", "torch.uint8") for each in _elements(indices))


def _is_mask_of_bytes(data: Any, indices: Any) -> bool:  # noqa: ARG001
    return any(str(_dtype(each)) == "torch.uint8" for each in _elements(indices))


def _is_wide(data: Any, scale: Any, zero: Any, *rest: Any) -> bool:  # noqa: ARG001
    return rest[-1].toIValue() not in _WHOLE


_UNFIT: dict[str, tuple[str, Callable[..., bool]]] = {
    "aten::cross_entropy_loss": (
        "of more axes than two",
        lambda data, *_: len(_shape(data)) != 2,
    ),
    "aten::index": ("by a mask of bytes", _is_mask_of_bytes),
    "aten::index_put": ("by a mask", _masks),
    "aten::pad": ("of more than three axes", lambda _, pads, *__: len(_elements(pads)) > 6),
    "aten::pow": (
        "of whole numbers",
        lambda base, exponent: _is_whole(base) and _is_whole(exponent),
    ),
    **{
        f"quantized_decomposed::quantize_per_{kind}": ("to other types than int8 to 16", _is_wide)
        for kind in ("channel", "tensor")
    },
    **{
        f"aten::upsample_{kind}": ("by a scale that does not give a whole size", _scales)
        for kind in ("bicubic2d", "bilinear2d", "nearest2d", "nearest3d", "trilinear3d")
    },
}
"""Uses that TVM's converters get wrong whatever one argument is: how they are told, and a test of a
node's inputs."""
