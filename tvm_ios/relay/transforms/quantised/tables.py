"""Functions of a byte in Relay that look up their results."""

from __future__ import annotations

from tvm import relay

from tvm_ios.core.precision.byte_tables import BYTE, table_of
from tvm_ios.relay.constants import constant
from tvm_ios.relay.functions.fused_function import describe_function
from tvm_ios.relay.functions.stored_types import typed

__all__ = ["with_table"]


def with_table(
    function: relay.Function, arguments: list[relay.Expr]
) -> tuple[relay.Function, list[relay.Expr]]:
    """Function that looks its results up, and its arguments; those given where it has no table."""
    described = describe_function(function)
    table = None if described is None else table_of(described)
    if table is None:
        return function, arguments
    (bytes_,) = function.params
    results = relay.Var("table", relay.TensorType(table.shape, BYTE))
    body = relay.take(results, bytes_, mode="clip")
    made = typed(relay.Function([bytes_, results], body, attrs=function.attrs))
    return made, [*arguments, constant(table)]
