"""Processors and features that LLVM knows, so that a mistyped one is refused.

LLVM itself takes an unknown processor for a plain one, and tells standard error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm_ios.errors import ModelError
from tvm_ios.host.relay_tvm import require_relay_tvm
from tvm_ios.support.near_name import did_you_mean

__all__ = ["require_known_processor"]

_OTHERWISE = "; give another, or leave it out"


def require_known_processor(target: Any) -> None:
    """Refuse an ``llvm`` target whose ``-mcpu`` or ``-mattr`` LLVM does not know for its triple.

    Raises
    ------
    ModelError
        If it is one; the message has the nearest name. TVM before 0.16 knows no names to compare.
    """
    attrs = target.attrs
    features = tuple(str(each).lstrip("+-") for each in attrs.get("mattr", ()))
    unknown = _unknown(str(attrs.get("mtriple", "")), str(attrs.get("mcpu", "")), features)
    if unknown:
        raise ModelError(f"target is {str(target)!r}, and this TVM's LLVM knows no {unknown}")


@cache
def _unknown(triple: str, processor: str, features: tuple[str, ...]) -> str:
    """The first name that LLVM does not know; empty if it knows all, or cannot be asked."""
    codegen = require_relay_tvm().target.codegen
    if not (processor or features) or not hasattr(codegen, "llvm_get_cpu_archlist"):
        return ""
    # LLVM crashes when it is asked about an architecture that it does not have.
    if triple and not triple.startswith(tuple(map(str, codegen.llvm_get_targets()))):
        return ""
    processors = [str(each) for each in codegen.llvm_get_cpu_archlist(_target(triple))]
    if processor and processor not in processors:
        return f"processor {processor!r}{did_you_mean(processor, processors) or _OTHERWISE}"
    known = _features(triple, tuple(processors)) if features else frozenset()
    for name in features:
        # A feature that no processor has is known if it can be switched on.
        alone = _target(triple, mattr=[f"+{name}"])
        if name not in known and name not in codegen.llvm_get_cpu_features(alone):
            return f"feature {name!r}{did_you_mean(name, sorted(known)) or _OTHERWISE}"
    return ""


@cache
def _features(triple: str, processors: tuple[str, ...]) -> frozenset[str]:
    """The features of all processors."""
    get = require_relay_tvm().target.codegen.llvm_get_cpu_features
    return frozenset().union(*(get(_target(triple, mcpu=each)) for each in processors))


def _target(triple: str, **attributes: Any) -> Any:
    given = {"mtriple": triple} if triple else {}
    return require_relay_tvm().target.Target({"kind": "llvm", **given, **attributes})
