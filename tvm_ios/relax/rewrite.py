"""Rewriting of Relax by a schedule: one private function a stage, called in order by ``main``.

Goes after ``extract`` and the search; ``build``, and TVM's own pipeline for its virtual machine,
come after it. Constants stay in the stage functions. A call that is no kernel stands in a stage of
its own, as it is. A concatenation that a merged convolution computes belongs to the merge's stage;
its own stage only hands it on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_ios.core.merge_outputs import merged_name
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.core.stage_attributes import main_attributes, stage_attributes
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import ModelError
from tvm_ios.plan.merge_effects import stage_outputs
from tvm_ios.relax.extract import Extraction, extract
from tvm_ios.relax.ir import replace_variables
from tvm_ios.relax.merge import emit_merged
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.relax.straight_line import Made, expression_of, leaves
from tvm_ios.relax.target import resolve_target

__all__ = ["rewrite", "rewrite_extraction"]


def rewrite(module: tvm.IRModule, schedule: InterOpSchedule, target: Any = None) -> tvm.IRModule:
    """Copy of a prepared module, partitioned into the stages of a schedule for its graph.

    Kernels of merge stages are made for the target, this machine's processor where omitted.
    """
    return rewrite_extraction(extract(module), schedule, resolve_target(target))


def rewrite_extraction(
    extraction: Extraction, schedule: InterOpSchedule, target: tvm.target.Target
) -> tvm.IRModule:
    """Partitioned module, as of :func:`rewrite`, for a module that was extracted already.

    Raises
    ------
    ModelError
        If there is nothing to schedule, or the module is partitioned already.
    """
    if is_partitioned(extraction.module):
        raise ModelError("the module is partitioned already; rewrite the prepared module")
    if not extraction.line.calls:
        reasons = "; ".join(barrier.reason for barrier in extraction.coverage.barriers)
        raise ModelError(f"the module has no operators to schedule: {reasons or 'it is empty'}")
    verify_schedule(schedule, extraction.graph)
    return _Partition(extraction, schedule, target).finish()


class _Partition:
    """New module whose stages are added one after another."""

    def __init__(
        self, extraction: Extraction, schedule: InterOpSchedule, target: tvm.target.Target
    ) -> None:
        self.extraction = extraction
        self.schedule = schedule
        self.target = target
        self.main = extraction.main
        others = {
            variable: function
            for variable, function in extraction.module.functions_items()
            if not function.same_as(self.main)
        }
        old = extraction.module
        self.builder = relax.BlockBuilder(tvm.IRModule(others, old.attrs, old.global_infos))
        self.outer: dict[Made, Any] = {
            Made(-1, number): variable for number, variable in enumerate(self.main.params)
        }
        """Expression of every tensor in the new main."""
        self.read_later = _readers(extraction)
        self.joined: set[int] = set()
        """Concatenations that a merged convolution computes."""

    def finish(self) -> tvm.IRModule:
        stages = enumerate(self.schedule.stages)
        parts = [self._add_stage(number, stage) for number, stage in stages]
        attributes = dict(self.main.attrs or {}) | main_attributes(self.schedule)
        attributes.pop("global_symbol", None)  # the builder adds it
        with self.builder.function("main", list(self.main.params), attrs=attributes):
            with self.builder.dataflow():
                for variable, stage in parts:
                    arguments = [self.outer[value] for value in stage.parameters]
                    made = self.builder.emit(relax.Call(variable, arguments))
                    for position, value in enumerate(stage.outputs):
                        alone = len(stage.outputs) == 1
                        self.outer[value] = made if alone else relax.TupleGetItem(made, position)
                result = expression_of(self.extraction.line.result, self.outer.get)
                whole = self.builder.emit_output(result)
            self.builder.emit_func_output(whole)
        return self.builder.finalize()

    def _add_stage(self, number: int, stage: Stage) -> tuple[tvm.ir.GlobalVar, _StageBody]:
        if stage.is_merge:
            return self._add_merged(number, stage)
        calls = self.extraction.line.calls
        body = _StageBody(self.extraction, frozenset(stage.operators), frozenset(self.joined))
        body.find(
            [
                Made(index, output)
                for index in stage.operators
                for output in range(len(calls[index].outputs))
                if self.read_later.get(Made(index, output), {-1}) - set(stage.operators)
            ]
        )
        names = self.schedule.operator_names
        kernels = [names[index] for index in stage.operators if index not in self.joined]
        return self._stage(number, stage, body, kernels, lambda: body.emit(self.builder.emit))

    def _add_merged(self, number: int, stage: Stage) -> tuple[tvm.ir.GlobalVar, _StageBody]:
        merged = stage_outputs(self.extraction, [group[0] for group in stage.groups])
        names = self.schedule.operator_names
        body = _StageBody(self.extraction, frozenset(merged.members))
        whole = [] if merged.whole is None else [merged.whole]
        body.find([Made(index, 0) for index in (*whole, *merged.sliced)])
        self.joined.update(whole)
        kernels = [merged_name([names[index] for index in merged.members])]
        kernels += [f"{names[index]}.slice" for index in merged.sliced]

        def emit() -> Any:
            # Without one operand the merge rule refuses, with the reason.
            operand = next(iter(body.parameters.values()))
            made = emit_merged(self.builder, self.extraction, merged, operand, self.target)
            return made[0] if len(made) == 1 else relax.Tuple(made)

        return self._stage(number, stage, body, kernels, emit)

    def _stage(
        self,
        number: int,
        stage: Stage,
        body: _StageBody,
        kernels: list[str],
        emit: Callable[[], Any],
    ) -> tuple[tvm.ir.GlobalVar, _StageBody]:
        """Stage function with a body that emits kernels of these names."""
        names = self.schedule.operator_names
        attributes = stage_attributes(
            number,
            stage.strategy,
            groups=[[names[index] for index in group] for group in stage.groups],
            operators=kernels,
        )
        name = f"tvm_ios_stage_{number}"
        parameters = list(body.parameters.values())
        with self.builder.function(name, parameters, attrs=attributes, private=True):
            with self.builder.dataflow():
                result = self.builder.emit_output(emit())
            self.builder.emit_func_output(result)
        return self.builder.get().get_global_var(name), body


@dataclass(slots=True)
class _StageBody:
    """Body of one stage function: what it reads, computes and gives."""

    extraction: Extraction
    inside: frozenset[int]
    joined: frozenset[int] = frozenset()
    """Concatenations that a merged convolution has computed before, and that are handed on."""
    parameters: dict[Made, relax.Var] = field(default_factory=dict)
    """Tensors from outside, in the order they are first read."""
    outputs: list[Made] = field(default_factory=list)

    def find(self, outputs: list[Made]) -> None:
        """Set the outputs, and find the parameters."""
        self.outputs = outputs
        for index in sorted(self.inside):
            if index in self.joined:
                self._parameter(Made(index, 0))
                continue
            for tree in self.extraction.line.calls[index].reads.values():
                for leaf in leaves(tree):
                    if isinstance(leaf, Made) and leaf.call not in self.inside:
                        self._parameter(leaf)

    def emit(self, emit: Callable[[Any], relax.Var]) -> Any:
        """Emit the calls; give the result."""
        made: dict[Made, Any] = dict(self.parameters)
        for index in sorted(self.inside - self.joined):
            read = self.extraction.line.calls[index]
            reads = {old: expression_of(tree, made.get) for old, tree in read.reads.items()}
            variable = emit(replace_variables(read.call, reads.__getitem__))
            for output in range(len(read.outputs)):
                made[Made(index, output)] = (
                    variable if read.alone else relax.TupleGetItem(variable, output)
                )
        fields = [made[value] for value in self.outputs]
        return fields[0] if len(fields) == 1 else relax.Tuple(fields)

    def _parameter(self, value: Made) -> None:
        if value in self.parameters:
            return
        line = self.extraction.line
        if value.call < 0:
            name, tensor = line.parameters[value.output]
        else:
            tensor = line.calls[value.call].outputs[value.output]
            name = self.extraction.graph.operators[value.call].name
            name = name if line.calls[value.call].alone else f"{name}_{value.output}"
        self.parameters[value] = relax.Var(name, relax.TensorType(tensor.shape, tensor.dtype))


def _readers(extraction: Extraction) -> dict[Made, set[int]]:
    """Calls that read each tensor; -1 stands for the caller of the model."""
    readers: dict[Made, set[int]] = {}
    for index, call in enumerate(extraction.line.calls):
        for tree in call.reads.values():
            for leaf in leaves(tree):
                if isinstance(leaf, Made):
                    readers.setdefault(leaf, set()).add(index)
    for leaf in leaves(extraction.line.result):
        if isinstance(leaf, Made):
            readers.setdefault(leaf, set()).add(-1)
    return readers
