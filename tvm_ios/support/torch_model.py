"""Models of PyTorch as users give them, checked before an importer of TVM sees them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tvm_ios.errors import ModelError

__all__ = ["example_tensors", "require_model", "torch_here"]


def torch_here() -> Any:
    """The package torch.

    Raises
    ------
    ModelError
        If it cannot be imported.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise ModelError(
            f"a model of PyTorch needs the package torch, which cannot be imported ({error}); run: "
            "python -m pip install torch"
        ) from error


def require_model(model: Any) -> None:
    """Refuse what is no ``torch.nn.Module`` in evaluation mode, and no ``ExportedProgram``."""
    torch = torch_here()
    if isinstance(model, torch.export.ExportedProgram):
        return
    if not isinstance(model, torch.nn.Module):
        raise ModelError(
            f"the model is a {type(model).__name__}; give a torch.nn.Module or a "
            "torch.export.ExportedProgram"
        )
    # Graphs of torch.export have no mode: their operators say whether they train.
    if model.training and not isinstance(model, torch.fx.GraphModule):
        raise ModelError("the model is in training mode; call model.eval() first")


def example_tensors(example_inputs: Any) -> tuple[Any, ...]:
    """Example inputs as a tuple of tensors; a ModelError where they are something else."""
    torch = torch_here()
    given = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else example_inputs
    if not isinstance(given, Sequence) or not all(isinstance(x, torch.Tensor) for x in given):
        kinds = ", ".join(type(x).__name__ for x in given) if isinstance(given, Sequence) else ""
        raise ModelError(
            f"example_inputs is a {type(example_inputs).__name__}"
            f"{f' of {kinds}' if kinds else ''}; give a tensor or a tuple of tensors"
        )
    return tuple(given)
