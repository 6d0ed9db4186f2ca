"""Models with batch normalisation as the description has them; needs TVM.

Normalisation becomes a factor and a summand for each channel, TVM folds the factor into weights
beside it, and every convolution and product has a bias, as frameworks fuse them. Models without
normalisation are described as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relay

from tvm_ios.host import cached_libinfo

__all__ = ["normal_form"]

_BIASED = {"nn.conv2d", "nn.conv2d_transpose", "nn.conv3d", "nn.dense"}
_SUMS = {"add", "nn.bias_add"}


def normal_form(
    module: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray]
) -> tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]:
    """The model without batch normalisation, and its weights.

    Parameters
    ----------
    module
        Type-checked; the first parameter of ``main`` is the input, the others are weights.
    params
        All weights.
    """
    if "nn.batch_norm" not in map(str, relay.analysis.list_op_freqs(module)):
        return module, dict(params)
    bound = relay.build_module.bind_params_by_name(module["main"], dict(params))
    folding = [
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FoldScaleAxis(),
        relay.transform.FoldConstant(),
    ]
    with tvm.transform.PassContext(opt_level=3), cached_libinfo():
        folded = tvm.transform.Sequential(folding)(tvm.IRModule.from_expr(bound))
    function = folded["main"]
    biased = _Biased()
    body = biased.visit(function.body)
    named = relay.Function([*function.params, *biased.weights], body)
    values = {variable.name_hint: value for variable, value in biased.weights.items()}
    return relay.transform.InferType()(tvm.IRModule.from_expr(named)), values


class _Biased(relay.ExprMutator):  # type: ignore[misc]  # TVM has no types
    """Gives each constant a name, and each convolution and product a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[relay.Var, tvm.nd.NDArray] = {}

    def visit_constant(self, const: relay.Constant) -> relay.Var:
        """Variable for a weight."""
        return self._weight(const.data.numpy())

    def visit_call(self, call: relay.Call) -> relay.Call:
        """Call in normal form; one that is added to nothing but its bias, together with that."""
        if call.op.name in _BIASED:
            return self._with_bias(call, np.zeros(_channels(call), "float32"))
        if call.op.name in _SUMS and _is_biased(*call.args):
            first, bias = call.args
            return self._with_bias(first, bias.data.numpy().ravel())
        return super().visit_call(call)

    def _with_bias(self, call: relay.Call, bias: np.ndarray) -> relay.Call:
        operands = [self.visit(operand) for operand in call.args]
        plain = relay.Call(call.op, operands, call.attrs)
        return relay.nn.bias_add(plain, self._weight(bias))

    def _weight(self, value: np.ndarray) -> relay.Var:
        variable = relay.var(f"w{len(self.weights)}", shape=value.shape, dtype=str(value.dtype))
        self.weights[variable] = tvm.nd.array(value)
        return variable


def _is_biased(first: relay.Expr, second: relay.Expr) -> bool:
    """Whether the second one has a number for each channel of what the first one, a call, makes."""
    if not (isinstance(first, relay.Call) and isinstance(second, relay.Constant)):
        return False
    channels = _channels(first) if first.op.name in _BIASED else 0
    *outer, extent = second.data.shape or (0,)
    # A vector along the channels of images or volumes is (channels, 1, 1) or (channels, 1, 1, 1).
    return (
        channels > 0 and channels in (extent, *outer[:1]) and second.data.numpy().size == channels
    )


def _channels(call: relay.Call) -> int:
    return int(call.checked_type.shape[1])
