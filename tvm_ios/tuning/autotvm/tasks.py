"""AutoTVM's tasks of a model, and a task's candidates that fit its neighbours' data layouts.

Tuned alone over its whole space, every convolution picks a channel block of its own, and the
network loses the gain to layout transforms between them. So blocks are chosen for the whole graph:
a *layout* gives every number of channels one block, and a task is tuned for each layout. That is a
small space, too: 4 to 20 candidates for a convolution and layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import tvm
from tvm import autotvm, relay, topi
from tvm.autotvm.task.dispatcher import FallbackContext
from tvm.autotvm.task.topi_integration import TaskExtractEnv
from tvm.ir.transform import PassContext
from tvm.target.x86 import get_simd_32bit_lanes

from tvm_ios.host import cached_libinfo
from tvm_ios.relay.context import offline_tophub, quiet_lookups
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.gpu_defaults import default_gpu_kernels
from tvm_ios.relay.kernels import empty_compiler, lowering
from tvm_ios.relay.transforms.pipeline import UNSHARER

__all__ = [
    "KernelTask",
    "Layout",
    "blocks_of",
    "config_blocks",
    "default_candidate",
    "extract_tasks",
    "layout_candidates",
]

BLOCKS = ("tile_ic", "tile_oc")
"""Knobs of CPU convolutions that are data layouts."""
USUAL = range(4, 31)
"""Numbers of accumulators of a good candidate: enough to hide latency, few enough for registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """A task of AutoTVM, and how often the model runs its kernel."""

    task: autotvm.task.Task
    weight: int

    @property
    def name(self) -> str:
        """Name for people: template and shapes."""
        shapes = [
            "x".join(map(str, argument[1]))
            for argument in self.task.args
            if isinstance(argument, tuple | list) and argument and argument[0] == "TENSOR"
        ]
        return f"{self.task.name.removesuffix('.x86')} {' * '.join(shapes)}"


def extract_tasks(
    modules: Sequence[tvm.IRModule], target: tvm.target.Target
) -> tuple[KernelTask, ...]:
    """Tasks of Relay modules (models, or merged stages), each once, the most work first."""
    environment = TaskExtractEnv.get()
    # TVM has one such environment a process, and it holds the tasks of the last call.
    environment.reset(None)
    with environment:
        for module in modules:
            with empty_compiler(), lowering:
                _lower(module, target)
    uses = _count_uses(modules)
    tasks = []
    for name, arguments in environment.get_tasks():
        with suppress(topi.InvalidShapeError):  # what the template cannot do has no task
            task = autotvm.task.create(name, arguments, target=target)
            tasks.append(KernelTask(task=task, weight=uses.get(_signature_of_task(task), 1)))
    return tuple(sorted(tasks, key=lambda one: -one.weight * one.task.flop))


def _lower(module: tvm.IRModule, target: tvm.target.Target) -> None:
    """Call every template of a module, as ``autotvm.task.extract_from_program`` does.

    SimplifyExpr is left out, since its fault unshares a graph until it is too large. Weights stay
    variables: a task needs only shapes, and folding constants takes a minute. Tasks are those of
    unaltered layouts, which TVM looks records up by.
    """
    context = PassContext(opt_level=3, disabled_pass=["AlterOpLayout", UNSHARER])
    with context, offline_tophub(), cached_libinfo():
        relay.vm.VMCompiler().lower(module, target=target)


class Layout(StrEnum):
    """Rule for the channel blocks of tensors."""

    DEFAULT = "default"
    """Blocks of TVM's default schedules: the largest divisor up to one vector."""
    WIDE = "wide"
    """Two vectors where the channels allow: a loaded input then serves two multiplications."""


def layout_candidates(task: autotvm.task.Task, layout: Layout) -> list[int]:
    """Indices of a layout's candidates, the default schedule first if it is one.

    Candidates with too few or too many accumulators are left out where others remain. All indices
    where the template has no blocks.
    """
    space = task.config_space
    blocks = blocks_of(task, layout)
    fitting = [
        index
        for index in range(len(space))
        if blocks == {name: _block(space.get(index), name) for name in blocks}
    ]
    lanes = _vector_lanes(task)
    usual = [
        index for index in fitting if blocks and _accumulators(space.get(index), lanes) in USUAL
    ]
    default = default_candidate(task)
    first = [index for index in fitting if index == default]
    return first + [index for index in usual or fitting if index != default]


def default_candidate(task: autotvm.task.Task) -> int | None:
    """Index of the schedule that an untuned model has; None where it is no candidate."""
    space, default = task.config_space, _default_config(task)
    index, step = 0, 1
    for name, knob in space.space_map.items():
        values = [_inner(value) for value in knob.entities]
        if name not in default or _inner(default[name]) not in values:
            return None
        index += step * values.index(_inner(default[name]))
        step *= len(values)
    return index if space.is_index_valid(index) else None


def blocks_of(task: autotvm.task.Task, layout: Layout) -> dict[str, int]:
    """Channel blocks that a layout prescribes, by knob; empty for a template without blocks."""
    space = task.config_space
    if any(name not in space.space_map for name in BLOCKS):
        return {}
    default = _default_config(task)
    blocks = {name: _block(default, name) for name in BLOCKS}
    if layout is Layout.WIDE:
        lanes = _vector_lanes(task)
        for name in BLOCKS:
            fitting = [b for b in (2 * lanes, lanes) if space.space_map[name].product % b == 0]
            blocks[name] = fitting[0] if fitting else blocks[name]
    return blocks


def config_blocks(config: Any) -> dict[str, int]:
    """Channel blocks of one candidate, by knob."""
    # In templates of others such a knob may be no split.
    found = [name for name in BLOCKS if name in config and hasattr(config[name], "size")]
    return {name: _block(config, name) for name in found}


def _vector_lanes(task: autotvm.task.Task) -> int:
    with task.target:
        return int(get_simd_32bit_lanes())


def _accumulators(config: Any, lanes: int) -> int:
    """Number of vector registers that hold sums: the tile of the output."""
    rows = config["tile_oh"].val if "tile_oh" in config else 1
    columns = config["tile_ow"].size[-1] if "tile_ow" in config else 1
    return int(rows * columns * max(1, _block(config, "tile_oc") // lanes))


def _inner(entity: Any) -> Any:
    """Value of a knob; for a split without the outermost extent, which candidates leave open."""
    return list(entity.size[1:]) if hasattr(entity, "size") else str(entity)


def _default_config(task: autotvm.task.Task) -> Any:
    """Schedule that an untuned model has."""
    context = FallbackContext()
    with quiet_lookups(), default_gpu_kernels(), context, task.target:
        task.func(*task.args)
    (config,) = context.memory.values()
    return config


def _block(config: Any, name: str) -> int:
    return int(config[name].size[-1])


def _count_uses(modules: Iterable[tvm.IRModule]) -> Counter[Any]:
    """Number of convolutions and products of each shape."""
    uses: Counter[Any] = Counter()
    for module in modules:
        calls = all_calls(relay.transform.InferType()(module)["main"])
        uses.update(_signature_of_call(call) for call in calls if isinstance(call.op, tvm.ir.Op))
    del uses[None]  # of all operators without a signature
    return uses


_PRODUCTS = ("dense", "batch_matmul")
_WINDOWED = tuple(f"conv{n}d{way}" for n in (3, 2, 1) for way in ("_transpose", ""))
"""Names that tell operators and tasks apart; a task has the first that is in its name."""


def _signature_of_call(call: relay.Call) -> Any:
    kind = call.op.name.removeprefix("nn.")
    if kind not in (*_PRODUCTS, *_WINDOWED) or len(call.args) < 2:
        return None
    shapes = tuple(tuple(int(e) for e in arg.checked_type.shape) for arg in call.args[:2])
    if kind in _PRODUCTS:
        return (kind, shapes)
    strides = tuple(int(stride) for stride in call.attrs.strides)
    return (kind, shapes, strides, tuple(int(pad) for pad in call.attrs.padding))


def _signature_of_task(task: autotvm.task.Task) -> Any:
    kind = next((kind for kind in (*_PRODUCTS, *_WINDOWED) if kind in task.name), None)
    if kind is None or "deformable" in task.name:  # the latter's second argument are offsets
        return None
    shapes = tuple(tuple(argument[1]) for argument in task.args[:2])
    if kind in _PRODUCTS:
        return (kind, shapes)
    strides, padding = (tuple(int(value) for value in task.args[i]) for i in (2, 3))
    return (kind, shapes, strides, padding)
