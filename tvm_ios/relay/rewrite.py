"""Rewriting of Relay by a schedule: one function a stage, called in order by ``main``.

Goes after ``extract`` and the search; ``build`` and plain ``relay.build`` come after it. The
attributes are described in :mod:`tvm_ios.relay.stage_ir`. Constants stay in the stage functions.
A kernel with several outputs hands them on one by one, since the graph executor flattens tuples. A
concatenation that a merged convolution computes belongs to the merge's stage; its own stage only
hands it on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import tvm
from tvm import relay

from tvm_ios.core.merge_outputs import MergeOutputs, merged_name
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.core.stage_attributes import main_attributes, stage_attributes
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import ModelError
from tvm_ios.plan.merge_effects import stage_outputs
from tvm_ios.relay.dataflow import copy_call, kernel_calls, rebuild, resolve_field
from tvm_ios.relay.extract import Extraction, extract
from tvm_ios.relay.merge import merged_kernels
from tvm_ios.relay.stage_ir import with_attributes

__all__ = ["rewrite", "rewrite_extraction"]

Value = tuple[relay.Expr, int]
"""Tensor: an output of a kernel call, or (with number 0) a parameter of main."""


def rewrite(module: tvm.IRModule, schedule: InterOpSchedule) -> tvm.IRModule:
    """Copy of a prepared module, partitioned into the stages of a schedule for its graph."""
    return rewrite_extraction(extract(module), schedule)


def rewrite_extraction(extraction: Extraction, schedule: InterOpSchedule) -> tvm.IRModule:
    """Partitioned module, as of :func:`rewrite`, for a module that was extracted already.

    Raises
    ------
    ModelError
        If there is nothing to schedule.
    """
    if not extraction.calls:
        reasons = "; ".join(barrier.reason for barrier in extraction.coverage.barriers)
        raise ModelError(f"the module has no operators to schedule: {reasons or 'it is empty'}")
    verify_schedule(schedule, extraction.graph)
    return _Partition(extraction, schedule).finish()


class _Partition:
    """New module whose stages are added one after another."""

    def __init__(self, extraction: Extraction, schedule: InterOpSchedule) -> None:
        self.extraction = extraction
        self.schedule = schedule
        self.main = extraction.module["main"]
        self.outer: dict[Value, relay.Expr] = {(var, 0): var for var in self.main.params}
        """Expression of every tensor in the new main."""
        self.functions: dict[relay.GlobalVar, relay.Function] = {}
        self.readers = _readers(extraction, self.main.body)
        self.joined: set[relay.Call] = set()
        """Concatenations that a merged convolution computes."""

    def finish(self) -> tvm.IRModule:
        for number, stage in enumerate(self.schedule.stages):
            self._add_stage(number, stage)
        known: dict[relay.Expr, relay.Expr] = {
            call: _whole(call, [self.outer.get((call, i)) for i in range(_arity(call))])
            for call in self.extraction.calls
        }
        body = resolve_field(rebuild(self.main.body, known, copy_call))
        old = self.extraction.module
        kept = {v: f for v, f in old.functions.items() if v.name_hint != "main"}
        new = tvm.IRModule({**kept, **self.functions}, old.type_definitions)
        main = relay.Function(self.main.params, body, self.main.ret_type)
        new["main"] = with_attributes(main, main_attributes(self.schedule))
        return relay.transform.InferType()(new)

    def _add_stage(self, number: int, stage: Stage) -> None:
        calls = [self.extraction.calls[index] for index in stage.operators]
        body = _StageBody(self.extraction, frozenset(calls))
        if stage.is_merge:
            merged = stage_outputs(self.extraction, [group[0] for group in stage.groups])
            body.add_merged(merged)
            outputs = list(body.tensors)
            if merged.whole is not None:
                self.joined.add(self.extraction.calls[merged.whole])
        else:
            body.add_kernels(stage.operators, self.joined)
            outputs = self._outputs(calls)
        variable = relay.GlobalVar(f"tvm_ios_stage_{number}")
        self.functions[variable] = self._stage_function(number, stage, body, outputs)
        result = relay.Call(variable, [self.outer[value] for value in body.parameters])
        for position, value in enumerate(outputs):
            alone = len(outputs) == 1
            self.outer[value] = result if alone else relay.TupleGetItem(result, position)

    def _outputs(self, calls: list[relay.Call]) -> list[Value]:
        """Tensors of these kernels that others read."""
        inside = set(calls)
        return [
            (call, number)
            for call in calls
            for number in range(_arity(call))
            if self.readers.get((call, number), set()) - inside
        ]

    def _stage_function(
        self, number: int, stage: Stage, body: _StageBody, outputs: list[Value]
    ) -> relay.Function:
        fields = [body.tensors[value] for value in outputs]
        types = [_tensor_type(value) for value in outputs]
        alone = len(fields) == 1
        result = fields[0] if alone else relay.Tuple(fields)
        result_type = types[0] if alone else relay.TupleType(types)
        function = relay.Function(list(body.parameters.values()), result, result_type)
        names = self.schedule.operator_names
        attributes = stage_attributes(
            number,
            stage.strategy,
            groups=[[names[index] for index in group] for group in stage.groups],
            operators=[body.names[call] for call in kernel_calls(result)],
        )
        return with_attributes(function, {"Inline": 1, **attributes})


@dataclass(slots=True)
class _StageBody:
    """Body of one stage function under construction."""

    extraction: Extraction
    inside: frozenset[relay.Expr]
    parameters: dict[Value, relay.Var] = field(default_factory=dict)
    """Tensors from outside, in the order they are first read."""
    tensors: dict[Value, relay.Expr] = field(default_factory=dict)
    """Expression of every tensor made in the stage."""
    names: dict[relay.Expr, str] = field(default_factory=dict)
    """Operator names of the kernels in the stage."""

    def add_kernels(self, operators: tuple[int, ...], made_before: set[relay.Call]) -> None:
        for index in operators:
            call = self.extraction.calls[index]
            if call in made_before:
                self.tensors[call, 0] = self._parameter((call, 0))
                continue
            made = copy_call(call, [self._inner(argument) for argument in call.args])
            self.names[made] = self.extraction.graph.operators[index].name
            if isinstance(call.checked_type, tvm.ir.TensorType):
                self.tensors[call, 0] = made
            else:
                for number in range(_arity(call)):
                    self.tensors[call, number] = relay.TupleGetItem(made, number)

    def add_merged(self, outputs: MergeOutputs) -> None:
        calls, operators = self.extraction.calls, self.extraction.graph.operators
        first = outputs.members[0]
        pattern = self.extraction.patterns[first]
        # Without a pattern the merge rule refuses below, with the reason.
        operand = calls[first].args[0 if pattern is None else pattern.data]
        kernels = merged_kernels(self.extraction, outputs, self._inner(operand))
        self.names[kernels.convolution] = merged_name(
            [operators[index].name for index in outputs.members]
        )
        for index, piece in kernels.slices.items():
            self.names[piece] = f"{operators[index].name}.slice"
            self.tensors[calls[index], 0] = piece
        if outputs.whole is not None:
            self.tensors[calls[outputs.whole], 0] = kernels.convolution

    def _inner(self, expression: relay.Expr) -> relay.Expr:
        expression = resolve_field(expression)
        if isinstance(expression, relay.Constant):
            return expression
        if isinstance(expression, relay.Var):
            return self._tensor((expression, 0))
        if isinstance(expression, relay.Tuple):
            return relay.Tuple([self._inner(piece) for piece in expression.fields])
        if isinstance(expression, relay.TupleGetItem):
            source = expression.tuple_value
            if isinstance(source, relay.Call):
                return self._tensor((source, expression.index))
            return resolve_field(relay.TupleGetItem(self._inner(source), expression.index))
        return _whole(
            expression, [self._tensor((expression, i)) for i in range(_arity(expression))]
        )

    def _tensor(self, value: Value) -> relay.Expr:
        if value[0] in self.inside:
            return self.tensors[value]
        return self._parameter(value)

    def _parameter(self, value: Value) -> relay.Var:
        if value not in self.parameters:
            name = _parameter_name(self.extraction, value)
            self.parameters[value] = relay.Var(name, _tensor_type(value))
        return self.parameters[value]


def _readers(extraction: Extraction, body: relay.Expr) -> dict[Value, set[relay.Expr]]:
    """Readers of every tensor: kernel calls, or (as main's body) the caller of the model."""
    readers: dict[Value, set[relay.Expr]] = {}
    for call in extraction.calls:
        for argument in call.args:
            for value in _read(argument):
                readers.setdefault(value, set()).add(call)
    caller = relay.Tuple([])
    for value in _read(body):
        readers.setdefault(value, set()).add(caller)
    return readers


def _read(expression: relay.Expr) -> list[Value]:
    """Tensors that an expression is made of, down to the kernels that made them."""
    expression = resolve_field(expression)
    if isinstance(expression, relay.Call):
        return [(expression, number) for number in range(_arity(expression))]
    if isinstance(expression, relay.Tuple):
        return [value for piece in expression.fields for value in _read(piece)]
    if isinstance(expression, relay.TupleGetItem):
        if isinstance(expression.tuple_value, relay.Call):
            return [(expression.tuple_value, expression.index)]
        return _read(expression.tuple_value)
    return []


def _arity(call: relay.Call) -> int:
    type_ = call.checked_type
    return len(type_.fields) if isinstance(type_, tvm.ir.TupleType) else 1


def _whole(call: relay.Call, tensors: list[relay.Expr | None]) -> relay.Expr:
    """Outputs of a call as one expression; a tensor that nobody reads is None."""
    if isinstance(call.checked_type, tvm.ir.TensorType):
        return call if tensors[0] is None else tensors[0]
    return relay.Tuple([tensor if tensor is not None else relay.const(0) for tensor in tensors])


def _tensor_type(value: Value) -> tvm.ir.TensorType:
    type_ = value[0].checked_type
    return type_.fields[value[1]] if isinstance(type_, tvm.ir.TupleType) else type_


def _parameter_name(extraction: Extraction, value: Value) -> str:
    expression, number = value
    if isinstance(expression, relay.Var):
        return re.sub(r"\W", "_", expression.name_hint)
    name = extraction.graph.operators[extraction.calls.index(expression)].name
    return f"{name}_{number}" if _arity(expression) > 1 else name
