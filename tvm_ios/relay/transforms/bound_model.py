"""A checked model with parameters bound, where changes begin; also with batch norms in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_ios.relay.context import pass_context
from tvm_ios.relay.inputs import CheckedModule, check_module, check_parameters
from tvm_ios.relay.transforms.fold import fold_exactly

__all__ = ["bound_model", "in_parts", "with_parameters"]


def bound_model(
    mod: tvm.IRModule | CheckedModule, params: Mapping[str, Any] | None
) -> tvm.IRModule:
    """Typed module of only ``main``, in which parameters are constants.

    Changes that take a user's model begin with it, and return it where they change nothing.
    """
    typed = check_module(mod)
    return with_parameters(typed, check_parameters(typed["main"], params))


def with_parameters(typed: tvm.IRModule, arrays: Mapping[str, Any]) -> tvm.IRModule:
    """Typed module of only ``main``, in which checked parameters are constants."""
    main = relay.build_module.bind_params_by_name(typed["main"], dict(arrays))
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


def in_parts(bound: tvm.IRModule) -> tvm.IRModule:
    """Module with batch norms and dropouts as plain operators, whose constants are folded."""
    with pass_context():
        apart = relay.transform.InferType()(relay.transform.SimplifyInference()(bound))
        folded = relay.transform.FoldConstant()(fold_exactly(apart))
        return relay.transform.InferType()(folded)
