"""The executor of one model in several shapes: the inputs of a run choose one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm

from tvm_ios.core.parts import Part
from tvm_ios.core.shapes import fitting_shape
from tvm_ios.plan.parts.shapes import shape_alone
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["ShapesModule"]


class ShapesModule(MultiStreamGraphModule):
    """Runs a model that was compiled in several shapes, each time in the one of its inputs.

    At any time it is the model in one shape, the first one to begin with: inputs, outputs, times
    and traces are of that. Inputs of another shape, given to :meth:`run` or :meth:`set_input`, make
    it the model in theirs. Weights, lanes and memory of activations are the same for all. An input
    of one type in several shapes keeps its value from one to the other. Threads that run it in
    different shapes need a module each.

    Parameters are those of :class:`MultiStreamGraphModule`.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        params: Mapping[str, tvm.nd.NDArray],
        *,
        lanes: int | None = None,
        options: LaneOptions | None = None,
        store: FactStore | None = None,
    ) -> None:
        super().__init__(plan, library, params, lanes=lanes, options=options, store=store)
        self.shapes: tuple[Part, ...] = plan.parts
        """Shapes that the model is there in, each with its name, inputs and their shapes."""
        # Calls of operator libraries may differ from those of the plan that was given.
        whole = self.plan
        self._alone = [_Alone(shape_alone(whole, place)) for place in range(len(plan.parts))]
        self._enter(0)

    @property
    def shape(self) -> Part:
        """Shape that the model is in."""
        return self.shapes[self._place]

    def choose(self, shapes: Mapping[str, tuple[int, ...]]) -> Part:
        """Take the shape in which these inputs have these shapes, and return it.

        Where several fit it is the present one, or else the first.

        Raises
        ------
        ExecutionError
            If there is none; the message lists those that are there.
        """
        wanted = fitting_shape(self.shapes, shapes, self.shape)
        if wanted != self.shape:
            self._enter(self.shapes.index(wanted))
        return wanted

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Copy values into inputs, after taking the shape that they have."""
        self._choose_for(key, value, params)
        super().set_input(key, value, **params)

    def set_input_zero_copy(
        self, key: int | str | None = None, value: Any = None, **params: Any
    ) -> None:
        """Let inputs lie in the caller's arrays, after taking the shape that these have."""
        self._choose_for(key, value, params)
        super().set_input_zero_copy(key, value, **params)

    def run(self, **input_dict: Any) -> None:
        """Run once in the shape that the given inputs have, after setting them."""
        self._choose_for(None, None, input_dict)
        super().run(**input_dict)

    def _choose_for(self, key: int | str | None, value: Any, params: Mapping[str, Any]) -> None:
        given = dict(params)
        if isinstance(key, str):
            given[key] = value
        elif key is not None:
            given[self.plan.inputs[self._find_input(key)].name] = value
        # Parameters have names, too, and what is no input is refused when it is set.
        inputs = [name for name in self.shape.inputs if given.get(name) is not None]
        self.choose({name: _shape_of(given[name]) for name in inputs})

    def _enter(self, place: int) -> None:
        alone = self._alone[place]
        self._place, self.plan, self._copied = place, alone.plan, alone.copied
        self._index = {entry.name: number for number, entry in enumerate(alone.plan.inputs)}
        self._executor = self._executor_of(1 << place)


@dataclass(frozen=True, slots=True)
class _Alone:
    """Plan of a model in one shape, and outputs that are copied to arrays of the caller."""

    plan: ExecutionPlan
    copied: dict[int | str, tvm.nd.NDArray] = field(default_factory=dict)


def _shape_of(value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", None)
    try:
        return tuple(map(int, np.shape(value) if shape is None else shape))
    except (TypeError, ValueError):  # setting the input says what is wrong with it
        return ()
