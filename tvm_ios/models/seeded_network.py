"""Networks of TVM's collection with weights of ours, in Relay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import tvm
from tvm import relay

from tvm_ios.models.builder import KEEPS_SIGNAL
from tvm_ios.models.weights import Network, Weights, named

__all__ = ["seeded_network"]


def seeded_network(function: relay.Function, seed: int) -> Network:
    """Network with weights of ours, and calls that name their layers."""
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    data, *weights = module["main"].params
    drawn = Weights(data, seed)
    layers = _Layers({variable: _draw(drawn, variable) for variable in weights})
    return drawn.network(layers.visit(module["main"].body))


def _draw(weights: Weights, variable: relay.Var) -> relay.Var:
    name = variable.name_hint
    shape = tuple(int(extent) for extent in variable.checked_type.shape)
    if name.endswith("_deconv_weight"):
        # Channels read come first, and of a window's places a fourth meets an output.
        inputs = shape[0] * math.prod(shape[2:]) / 4
        return weights.draw(name, shape, KEEPS_SIGNAL / math.sqrt(inputs))
    if name.endswith("_weight"):
        return weights.draw(name, shape, KEEPS_SIGNAL / math.sqrt(math.prod(shape[1:])))
    if name.endswith("_moving_var"):
        return weights.draw(name, shape, 0.5, around=1.0)
    return weights.draw(name, shape, 1.0)


class _Layers(relay.ExprMutator):  # type: ignore[misc]  # TVM has no types
    """Mutator that names every call after the layer of its weights, or of its first operand."""

    def __init__(self, drawn: Mapping[relay.Var, relay.Var]) -> None:
        super().__init__()
        self._drawn = drawn

    def visit_var(self, var: relay.Var) -> relay.Var:
        """Weight in place of a variable, or the input itself."""
        return self._drawn.get(var, var)

    def visit_call(self, call: relay.Call) -> relay.Call:
        """Call with the name of its layer."""
        return named(_layer_of(call), super().visit_call(call))


def _layer_of(call: relay.Expr) -> str:
    """Layer's name in TVM's names of weights; a layer's first weight comes behind its data."""
    while True:
        if isinstance(call, relay.TupleGetItem):
            call = call.tuple_value
        elif len(call.args) > 1 and isinstance(call.args[1], relay.Var):
            return str(call.args[1].name_hint).rpartition("_")[0]
        else:
            call = call.args[0]
