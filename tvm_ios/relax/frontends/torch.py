"""Models of PyTorch, as Relax, through ``torch.export`` and TVM's importer of its programs."""

from __future__ import annotations

import warnings
from typing import Any

import tvm
from tvm.relax.frontend.torch import from_exported_program

from tvm_ios.errors import ModelError
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.torch_model import example_tensors, require_model, torch_here

__all__ = ["from_torch"]


def from_torch(model: Any, example_inputs: Any) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module whose constants are the weights, and no parameters; as :func:`tvm_ios.from_torch`.

    Raises
    ------
    ModelError
        If torch is missing, the model is in training mode or cannot be exported, changes a tensor
        in place, or uses an operator that TVM does not know.
    """
    require_model(model)
    given = example_tensors(example_inputs)
    torch = torch_here()
    with torch.no_grad(), warnings.catch_warnings():
        # Both packages warn of what each of them does itself.
        warnings.simplefilter("ignore")
        program = _exported(torch, model, given)
        signature = program.graph_signature
        changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
        if changed:
            raise ModelError(
                f"the model changes {changed[0]!r} in place; write to a new tensor instead"
            )
        try:
            module = from_exported_program(program, unwrap_unit_return_tuple=True)
        # What is wrong in a converter of TVM's ends in any error of Python.
        except Exception as error:
            raise ModelError(
                f"TVM's importer of PyTorch for Relax says: {type(error).__name__}: "
                f"{_first_line(error)}; replace that in the model"
            ) from error
    return module, {}


def _exported(torch: Any, model: Any, given: tuple[Any, ...]) -> Any:
    """Program of a model for tensors of these shapes."""
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    try:
        # Decomposed, a program says what it changes in place.
        return torch.export.export(model, given, strict=False).run_decompositions()
    # It runs the model's own code, which fails in whatever way it can.
    except Exception as error:
        raise ModelError(f"the model cannot be exported: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return lines_that_tell(error, type(error).__name__)[0]
