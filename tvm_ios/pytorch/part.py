"""A compiled part of a graph, which uses torch's tensors in place."""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tvm_ios.compile.model import CompiledModel
from tvm_ios.errors import ModelError
from tvm_ios.plan.plan import ALIGNMENT_BYTES
from tvm_ios.pytorch.agreement import disagreement
from tvm_ios.pytorch.options import BackendOptions

__all__ = ["CompiledPart", "checked_part"]


class CompiledPart(torch.nn.Module):
    """A compiled model in the place of a module of torch.

    Names are those of the module's inputs, in order; the model leaves out unused ones. The example
    is the module's result, a tensor or a tuple of them.

    Raises
    ------
    ModelError
        If the outputs have other shapes or data types than the module's.
    """

    def __init__(self, model: CompiledModel, names: list[str], example: Any) -> None:
        super().__init__()
        self.model = model
        self._executor = model.executor()
        self._single = isinstance(example, torch.Tensor)
        examples = (example,) if self._single else tuple(example)
        self._outputs = [(tuple(each.shape), each.dtype) for each in examples]
        used = self._executor.get_input_info()[0]
        self._inputs = [
            (place, self._executor.get_input_index(name))
            for place, name in enumerate(names)
            if name in used
        ]
        self._lock = Lock()
        self._check_outputs()

    def forward(self, *tensors: torch.Tensor) -> Any:
        """New tensors with the model's results: one or a tuple, as the module gave."""
        # An executor has one set of inputs and outputs, which two threads would mix.
        with self._lock:
            for place, number in self._inputs:
                self._give(number, tensors[place])
            outputs = [torch.empty(shape, dtype=kind) for shape, kind in self._outputs]
            # TVM 0.17 does not read booleans of DLPack: those are copied.
            copied = [number for number, each in enumerate(outputs) if each.dtype == torch.bool]
            for number, each in enumerate(outputs):
                if number not in copied:
                    self._executor.set_output_zero_copy(number, each)
            self._executor.run()
            for number in copied:
                values = self._executor.get_output(number).numpy()
                outputs[number].copy_(torch.from_numpy(values))
        return outputs[0] if self._single else tuple(outputs)

    def _give(self, number: int, tensor: torch.Tensor) -> None:
        """Let an input use torch's memory, or a copy where no kernel could read it."""
        tensor = tensor.detach().contiguous()
        if tensor.dtype == torch.bool:
            self._executor.set_input(number, tensor.numpy())
            return
        if tensor.data_ptr() % ALIGNMENT_BYTES:
            tensor = tensor.clone()
        self._executor.set_input_zero_copy(number, tensor)

    def _check_outputs(self) -> None:
        found = [self._executor.get_output(n) for n in range(self._executor.get_num_outputs())]
        got = [(tuple(each.shape), each.dtype) for each in found]
        wanted = [(shape, str(kind).removeprefix("torch.")) for shape, kind in self._outputs]
        if got != wanted:
            raise ModelError(f"imported, the outputs are {got}, and torch has {wanted}")


def checked_part(
    model: CompiledModel,
    names: list[str],
    given: tuple[Any, ...],
    result: Any,
    options: BackendOptions,
    *,
    least_bound: float = 0.0,
) -> CompiledPart:
    """Compiled part of a graph that computes what torch does, for these inputs.

    ``least_bound`` is the largest relative error that is allowed in any case.

    Raises
    ------
    ModelError
        If it computes something else.
    """
    part = CompiledPart(model, names, result)
    with torch.no_grad():
        found = pytree.tree_leaves(part(*given))
    wanted, inputs = pytree.tree_leaves(result), pytree.tree_leaves(given)
    low = model.schedule.low is not None
    bound = max(options.chosen.precision.max_relative_error if low else 0.0, least_bound)
    if difference := disagreement(found, wanted, inputs, max_relative_error=bound):
        allowed = f" in bfloat16 by more than max_relative_error={bound:g}" if low else ""
        raise ModelError(f"compiled, it computes something else than torch: {difference}{allowed}")
    return part
