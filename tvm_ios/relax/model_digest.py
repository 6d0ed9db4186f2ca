"""Digest of a user's module of Relax, which results of ``tune`` are kept under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi

from tvm_ios.cost.array_digest import digest_with_values
from tvm_ios.relax.ir import Constant, main_of, name_of
from tvm_ios.relax.prepare import params_by_name
from tvm_ios.runtime.base.module_attributes import parts_of, rest_of

__all__ = ["valued_model_digest"]


def valued_model_digest(mod: tvm.IRModule, params: Mapping[str, Any] | None) -> str:
    """Digest of structure, attributes, names of inputs, constants and parameters.

    Names inside the module do not count, as nothing that is made of it has them; equal in every
    process.
    """
    main = main_of(mod)
    names = [] if main is None else [name_of(each) for each in main.params]
    weights = {} if main is None else params_by_name(main, params)
    structure = tvm_ffi.structural_hash(mod, map_free_vars=True)
    rest = rest_of(mod)
    named = (structure, names, sorted(weights), rest and rest.to_bytes(), parts_of(mod))
    return digest_with_values(repr(named), _constants(mod), weights)


def _constants(mod: tvm.IRModule) -> list[Any]:
    """Arrays of all constants of a module, in an order that follows from its structure."""
    found: list[Any] = []

    def note(node: Any) -> None:
        if isinstance(node, Constant):
            found.append(node.value)

    for variable in sorted(mod.get_global_vars(), key=lambda each: str(each.name_hint)):
        function = mod[variable]
        if isinstance(function, tvm.relax.Function):
            tvm.relax.analysis.post_order_visit(function, note)
    return found
