"""Kernels of a prepared module that compute in float32, and have values in memory in other types.

These are bfloat16, and whole numbers that stand for others. Goes after fusing and before loops:
each such kernel begins with conversions of what it reads and ends in one of its result, and loops
compute these where they are needed. Its note says the types apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import tvm
from tvm import relax, te, topi

from tvm_ios.core.fused_function import FusedFunction, TensorType
from tvm_ios.core.precision.byte_tables import BYTE, table_of
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType
from tvm_ios.kernels.packed_products import Packing
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.relax.extract import WHOLE, Extraction, inputs_of, kernel_of
from tvm_ios.relax.ir import Constant, replace_variables
from tvm_ios.relax.notes import noted_function, with_notes
from tvm_ios.relax.schedules.packed import PACKED
from tvm_ios.relax.stored.arithmetic import looked_up, number, unpacked, written
from tvm_ios.relax.straight_line import Made, expression_of
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["PackedWeights", "StoredCall", "with_stored_types"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeights:
    """Weights of a product that are bytes, which become numbers of float32 where they are read."""

    packing: Packing
    data: int
    """Position of the rows that are multiplied."""
    weight: int
    """Position of the weights, and of their steps."""
    arrays: Sequence[Constant]
    """Steps, scales, and zero points unless all are 0; the last ones become the last arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """Types that values of one call have in memory, where these are not those it computes with."""

    parameters: Mapping[int, StoredType] = field(default_factory=dict)
    """Types of arguments, by position."""
    result: StoredType | None = None
    """Type of the only result; None where that is as it is computed."""
    constants: Mapping[int, Constant] = field(default_factory=dict)
    """Constants in place of arguments, by position."""
    packed: PackedWeights | None = None
    """Weights of bytes of a product of few rows, with scales; None of other calls."""

    @property
    def multiplies_bytes(self) -> bool:
        """True for products of bytes, of whose factors the second are signed."""
        return any(each.dtype == "int8" for each in self.parameters.values())


def with_stored_types(extraction: Extraction, stored: Mapping[int, StoredCall]) -> tvm.IRModule:
    """Copy of a module whose calls, by number, have values in memory in other types."""
    module, line = extraction.module, extraction.line
    others = {
        variable: function
        for variable, function in module.functions_items()
        if not function.same_as(extraction.main)
    }
    builder = relax.BlockBuilder(tvm.IRModule(others, module.attrs, module.global_infos))
    kernels = _Kernels(extraction, builder)
    called = {number: kernels.of(number, each) for number, each in stored.items()}
    made: dict[Made, Any] = {
        Made(-1, number): variable for number, variable in enumerate(extraction.main.params)
    }
    attributes = dict(extraction.main.attrs or {})
    attributes.pop("global_symbol", None)  # the builder adds it
    with builder.function("main", list(extraction.main.params), attrs=attributes):
        with builder.dataflow():
            for number, read in enumerate(line.calls):
                reads = {old: expression_of(tree, made.get) for old, tree in read.reads.items()}
                call = replace_variables(read.call, reads.__getitem__)
                if number in called:
                    arguments = list(call.args[1].fields)
                    for place, constant in stored[number].constants.items():
                        arguments[place] = constant
                    packed = stored[number].packed
                    if packed is not None:
                        arguments[packed.weight] = packed.arrays[0]
                        arguments += packed.arrays[1:]
                    arguments += kernels.tables.get(called[number].name_hint, ())
                    call = relax.Call(called[number], arguments)
                variable = builder.emit(call)
                for output in range(len(read.outputs)):
                    made[Made(number, output)] = (
                        variable if read.alone else relax.TupleGetItem(variable, output)
                    )
            whole = builder.emit_output(expression_of(line.result, made.get))
        builder.emit_func_output(whole)
    passes = [relax.transform.FuseTIR(), relax.transform.DeadCodeElimination()]
    made_of = with_notes(tvm.transform.Sequential(passes)(builder.finalize()), kernels.notes)
    for name, told in kernels.attributes.items():
        made_of.update_func(made_of.get_global_var(name), made_of[name].with_attrs(told))
    return made_of


class _Kernels:
    """Functions of kernels with conversions around them, one for all calls that are alike."""

    def __init__(self, extraction: Extraction, builder: relax.BlockBuilder) -> None:
        self._extraction = extraction
        self._builder = builder
        self._known: dict[Any, tvm.ir.GlobalVar] = {}
        self.notes: dict[str, Any] = {}
        """Notes of the kernels, by name."""
        self.attributes: dict[str, dict[str, Any]] = {}
        """Attributes of kernels by their names: that they multiply bytes, or unpack weights."""
        self.tables: dict[str, tuple[Constant]] = {}
        """Last arguments of kernels that look their results up, by name."""

    def of(self, number: int, stored: StoredCall) -> tvm.ir.GlobalVar:
        """Function of a call's kernel with types of its own."""
        read = self._extraction.line.calls[number]
        old = read.call.args[0]
        is_view = number in self._extraction.reshapes or self._extraction.views[number] is not None
        packed = stored.packed
        packing = None if packed is None else (packed.packing, len(packed.arrays))
        key = (old, tuple(sorted(stored.parameters.items())), stored.result, is_view, packing)
        if key not in self._known:
            tensors = inputs_of(self._extraction.line, read)
            kernel = kernel_of(self._extraction.module, read)
            noted = None if is_view or packed else noted_function(kernel)
            note = None if noted is None else _as_stored(noted, stored)
            table = None if note is None or not bits_may_change() else table_of(note)
            if table is not None:
                made = self._looking_up(old, tensors[0], relax.const(table))
            else:
                made = self._added(old, tensors, read.outputs[0], stored, is_view=is_view)
                if note is not None:
                    self.notes[made.name_hint] = note
            if stored.multiplies_bytes:
                self.attributes[made.name_hint] = {WHOLE: True}
            if packed is not None:
                self.attributes[made.name_hint] = {PACKED: _places(packed, len(tensors))}
            self._known[key] = made
        return self._known[key]

    def _added(
        self,
        old: tvm.ir.GlobalVar,
        tensors: Sequence[GraphTensor],
        output: GraphTensor,
        stored: StoredCall,
        *,
        is_view: bool,
    ) -> tvm.ir.GlobalVar:
        builder, types = self._builder, stored.parameters
        parameters = [
            relax.Var(f"x{n}", _type(each, types.get(n))) for n, each in enumerate(tensors)
        ]
        packed, more = stored.packed, []
        if packed is not None:
            steps, *more = (
                relax.Var(f"weights{n}", each.ty) for n, each in enumerate(packed.arrays)
            )
            parameters[packed.weight] = steps
        given = [*parameters, *more]
        with builder.function(old.name_hint, given, attrs={"Primitive": 1}, private=True):
            with builder.dataflow():
                if is_view:
                    made = self._te(partial(_moved, shape=output.shape), parameters)
                else:
                    read = [
                        self._te(partial(number, stored=types[n]), each) if n in types else each
                        for n, each in enumerate(parameters)
                    ]
                    if packed is not None:
                        size = tensors[packed.data].shape[-1]
                        unpack = partial(unpacked, packing=packed.packing, inputs=size)
                        read[packed.weight] = self._te(unpack, read[packed.weight], *more)
                    made = builder.emit(relax.call_tir(old, relax.Tuple(read), _type(output)))
                    if stored.result is not None:
                        made = self._te(partial(written, stored=stored.result), made)
                made = builder.emit_output(made)
            added: tvm.ir.GlobalVar = builder.emit_func_output(made)
        return added

    def _looking_up(
        self, old: tvm.ir.GlobalVar, bytes_: GraphTensor, table: Constant
    ) -> tvm.ir.GlobalVar:
        builder = self._builder
        type_ = relax.TensorType(bytes_.shape, BYTE)
        parameters = [relax.Var("x0", type_), relax.Var("table", table.ty)]
        with builder.function(old.name_hint, parameters, attrs={"Primitive": 1}, private=True):
            with builder.dataflow():
                made = builder.emit_output(self._te(looked_up, *parameters))
            added: tvm.ir.GlobalVar = builder.emit_func_output(made)
        self.tables[added.name_hint] = (table,)
        return added

    def _te(self, compute: Callable[..., te.Tensor], *read: Any) -> relax.Var:
        return self._builder.emit_te(compute, *read, primfunc_name_hint="stored")


def _as_stored(note: FusedFunction, stored: StoredCall) -> FusedFunction:
    """Function whose values have types of their own, besides those that they have already."""
    before = note.stored or (None,) * len(note.parameters)
    types = tuple(stored.parameters.get(n, each) for n, each in enumerate(before))
    parameters = tuple(
        each if type_ is None else TensorType(each.shape, type_.dtype)
        for each, type_ in zip(note.parameters, types, strict=True)
    )
    # What is written as whole numbers need not be rounded before.
    rounds = stored.result is not None and stored.result.is_whole
    ends = rounds and len(note.calls) > 1 and note.calls[-1].operator == FAKE_QUANTIZE
    return replace(
        note,
        parameters=parameters,
        calls=note.calls[:-1] if ends else note.calls,
        stored=types if any(types) else (),
        rounded_to=stored.result or note.rounded_to,
    )


def _places(packed: PackedWeights, count: int) -> dict[str, int]:
    """Packing of weights, and positions of all that a kernel reads for its product."""
    names = ("scales", "zeros")[: len(packed.arrays) - 1]
    last = {name: count + number for number, name in enumerate(names)}
    return {**asdict(packed.packing), "data": packed.data, "weight": packed.weight, **last}


def _type(tensor: GraphTensor, stored: StoredType | None = None) -> relax.TensorType:
    return relax.TensorType(tensor.shape, tensor.dtype if stored is None else stored.dtype)


def _moved(values: Sequence[te.Tensor], shape: Sequence[int]) -> te.Tensor:
    """Elements in their order, as TVM's own kernels of views have them."""
    if len(values) == 1:
        return topi.reshape(values[0], shape)
    axes = [n for n, extent in enumerate(shape) if extent != int(values[0].shape[n])]
    return topi.concatenate(values, axes[0])
