"""The plain executor that others are compared with: launches one after another, from Python."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import tvm
from tvm._ffi.runtime_ctypes import TVMArrayHandle

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.plan_memory import PlanMemory


class ReferenceExecutor:
    """Calls kernels one after another through TVM's packed functions, from Python.

    Parameters
    ----------
    plan, library, memory
        What to run, its kernels, and where its tensors lie.
    order_seed
        A number picks a random order that the dependencies allow; None takes the plan's order.
    poison
        True overwrites outputs before they are written, and dead buffers.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        memory: PlanMemory,
        *,
        order_seed: int | None = None,
        poison: bool = False,
    ) -> None:
        self._plan = plan
        self._memory = memory
        self._loaded = memory.load(library.runtime, plan)
        self._functions = [library.function(launch.kernel) for launch in plan.launches]
        self._order = (
            list(range(len(plan.launches)))
            if order_seed is None
            else random_order(plan, order_seed)
        )
        self._dead_after = _dead_after(plan, self._order) if poison else {}
        self._poison = poison

    def run(self) -> None:
        """Run every launch once."""
        for position, index in enumerate(self._order):
            launch = self._plan.launches[index]
            if self._poison:
                for tensor in launch.outputs:
                    self._overwrite(tensor)
            arguments = [self._view(tensor) for tensor in (*launch.inputs, *launch.outputs)]
            try:
                self._functions[index](*arguments)
            except tvm.TVMError as error:
                raise ExecutionError(
                    f"operator {launch.operator!r} (kernel {launch.kernel}) failed: "
                    f"{str(error).strip()}"
                ) from error
            for tensor in self._dead_after.get(position, ()):
                self._overwrite(tensor)

    def _view(self, tensor: int) -> Any:
        return array_at(self._loaded.tensor(tensor))

    def _overwrite(self, tensor: int) -> None:
        size = self._plan.tensors[tensor].size_bytes
        ctypes.memset(self._memory.data(tensor), 0xFF, size)


def random_order(plan: ExecutionPlan, seed: int) -> list[int]:
    """A random order of the launches that the plan's dependencies allow."""
    chooser = random.Random(seed)
    waiting = [len(group.dependencies) for group in plan.groups]
    successors: list[list[int]] = [[] for _ in plan.groups]
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            successors[dependency].append(number)
    ready = [number for number, count in enumerate(waiting) if not count]
    left = [list(reversed(group.launches)) for group in plan.groups]
    order = []
    while ready:
        number = chooser.choice(ready)
        order.append(left[number].pop())
        if left[number]:
            continue
        ready.remove(number)
        for successor in successors[number]:
            waiting[successor] -= 1
            if not waiting[successor]:
                ready.append(successor)
    return order


def _dead_after(plan: ExecutionPlan, order: list[int]) -> dict[int, list[int]]:
    """By position in the order: tensors of arena buffers that nobody touches any more."""
    last: dict[int, int] = {}
    members: dict[int, set[int]] = {}
    for position, index in enumerate(order):
        launch = plan.launches[index]
        for tensor in (*launch.inputs, *launch.outputs):
            buffer = plan.tensors[tensor].buffer
            if plan.buffers[buffer].kind is BufferKind.ARENA:
                last[buffer] = position
                members.setdefault(buffer, set()).add(tensor)
    dead: dict[int, list[int]] = {}
    for buffer, position in last.items():
        dead.setdefault(position, []).extend(sorted(members[buffer]))
    return dead


def array_at(address: int) -> Any:
    """An array over a ``DLTensor``, which has to outlive it; nothing is copied."""
    handle = ctypes.cast(ctypes.c_void_p(address), TVMArrayHandle)
    return tvm.nd.NDArray(handle, is_view=True)
