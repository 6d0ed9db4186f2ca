"""AutoTVM's tasks of a model, and the candidates of a task that keep the network's data layouts.

Tuned alone over its whole space, every convolution picks a channel block of its own, and the
network then spends what it gained on layout transforms between them. The blocks of the default
schedules fit each other, so a search that keeps them changes kernels only, never the graph; and it
is small: 8 to 22 candidates for a convolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import autotvm, relay, topi
from tvm.autotvm.task.dispatcher import FallbackContext
from tvm.autotvm.task.topi_integration import TaskExtractEnv
from tvm.ir.transform import PassContext

from tvm_ios.host import cached_libinfo
from tvm_ios.relay.context import offline_tophub
from tvm_ios.relay.pipeline import UNSHARER

__all__ = ["KernelTask", "extract_tasks", "layout_candidates"]

BLOCKS = ("tile_ic", "tile_oc")
"""Knobs of the CPU convolutions that are data layouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """A task of AutoTVM, and how often the model runs its kernel."""

    task: autotvm.task.Task
    weight: int

    @property
    def name(self) -> str:
        """Template and shapes."""
        shapes = [
            "x".join(map(str, argument[1]))
            for argument in self.task.args
            if isinstance(argument, tuple | list) and argument and argument[0] == "TENSOR"
        ]
        return f"{self.task.name.removesuffix('.x86')} {' * '.join(shapes)}"


def extract_tasks(
    modules: Sequence[tvm.IRModule], target: tvm.target.Target
) -> tuple[KernelTask, ...]:
    """The tasks of Relay modules, each once, the most work first.

    Parameters
    ----------
    modules
        Models as users give them, or merged stages as they are compiled.
    target
        For one device.
    """
    environment = TaskExtractEnv.get()
    environment.reset(None)
    with environment:
        for module in modules:
            # Lowering calls no template whose result it remembers.
            relay.backend.te_compiler.get().clear()
            _lower(module, target)
    relay.backend.te_compiler.get().clear()
    uses = _count_uses(modules)
    tasks = []
    for name, arguments in environment.get_tasks():
        with suppress(topi.InvalidShapeError):  # what the template cannot do has no task
            task = autotvm.task.create(name, arguments, target=target)
            tasks.append(KernelTask(task=task, weight=uses.get(_signature_of_task(task), 1)))
    return tuple(sorted(tasks, key=lambda one: -one.weight * one.task.flop))


def _lower(module: tvm.IRModule, target: tvm.target.Target) -> None:
    """Call every template of a module, as ``autotvm.task.extract_from_program`` does.

    Without SimplifyExpr, whose fault unshares a graph until it is too large. Weights stay
    variables: shapes are all a task needs, and folding constants takes a minute. Tasks are those
    of layouts nobody has altered; that is what TVM looks records up by.
    """
    context = PassContext(opt_level=3, disabled_pass=["AlterOpLayout", UNSHARER])
    with context, offline_tophub(), cached_libinfo():
        relay.vm.VMCompiler().lower(module, target=target)


def layout_candidates(task: autotvm.task.Task) -> list[int]:
    """Indices of the candidates with the channel blocks of the default schedule; that one first.

    All indices where the template has no such knobs.
    """
    space = task.config_space
    default = _default_config(task)
    blocks = {name: _block(default, name) for name in BLOCKS if name in space.space_map}
    kept, first = [], []
    for index in range(len(space)):
        config = space.get(index)
        if any(_block(config, name) != size for name, size in blocks.items()):
            continue
        same = all(
            str(config[name]) == str(default[name]) for name in space.space_map if name in default
        )
        (first if same else kept).append(index)
    return first + kept


def _default_config(task: autotvm.task.Task) -> Any:
    """What TVM uses where it finds no record."""
    context = FallbackContext()
    silent = autotvm.GLOBAL_SCOPE.silent
    autotvm.GLOBAL_SCOPE.silent = True
    try:
        with context, task.target:
            task.func(*task.args)
    finally:
        autotvm.GLOBAL_SCOPE.silent = silent
    (config,) = context.memory.values()
    return config


def _block(config: Any, name: str) -> int:
    return int(config[name].size[-1])


def _count_uses(modules: Iterable[tvm.IRModule]) -> dict[Any, int]:
    """How often convolutions and products of each shape occur."""
    uses: dict[Any, int] = {}

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            signature = _signature_of_call(expression)
            if signature is not None:
                uses[signature] = uses.get(signature, 0) + 1

    for module in modules:
        relay.analysis.post_order_visit(relay.transform.InferType()(module)["main"], visit)
    return uses


def _signature_of_call(call: relay.Call) -> Any:
    if call.op.name not in ("nn.conv2d", "nn.dense") or len(call.args) < 2:
        return None
    shapes = tuple(tuple(int(e) for e in arg.checked_type.shape) for arg in call.args[:2])
    if call.op.name == "nn.dense":
        return ("dense", shapes)
    strides = tuple(int(stride) for stride in call.attrs.strides)
    return ("conv2d", shapes, strides, tuple(int(pad) for pad in call.attrs.padding))


def _signature_of_task(task: autotvm.task.Task) -> Any:
    shapes = tuple(tuple(argument[1]) for argument in task.args[:2])
    if task.name.startswith("dense"):
        return ("dense", shapes)
    strides, padding = (tuple(int(value) for value in task.args[i]) for i in (2, 3))
    return ("conv2d", shapes, strides, padding)
