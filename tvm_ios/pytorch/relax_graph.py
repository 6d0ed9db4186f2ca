"""A captured graph compiled in Relax: as a whole, through ``torch.export``, or left to torch."""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import tracing
from torch.utils import _pytree as pytree

from tvm_ios.driver.tune import tuned
from tvm_ios.errors import ModelError
from tvm_ios.pytorch.captured import CapturedGraph
from tvm_ios.pytorch.options import BackendOptions
from tvm_ios.pytorch.part import checked_part
from tvm_ios.relax.frontends.torch import from_torch
from tvm_ios.relax.ir import main_of, name_of

__all__ = ["with_parts"]


def with_parts(
    graph: CapturedGraph, arguments: tuple[Any, ...], options: BackendOptions
) -> torch.nn.Module:
    """Graph for given sizes and weights, compiled.

    Raises
    ------
    ModelError
        If TVM cannot take the whole graph, some results lie in arguments, or it computes something
        else than torch.
    """
    module = graph.bound(arguments)
    tensors = tuple(arguments[place].detach().clone() for place in graph.tensors)
    with torch.no_grad():
        result = module(*tensors)
    leaves = pytree.tree_leaves(result)
    if not all(isinstance(each, torch.Tensor) for each in leaves):
        raise ModelError("a result of it is no tensor")
    given = {
        each.untyped_storage().data_ptr() for each in (*tensors, *module.state_dict().values())
    }
    owners = [each.untyped_storage().data_ptr() for each in leaves]
    if given & set(owners) or len(set(owners)) < len(owners):
        raise ModelError("a result of it is a view of an argument, a weight or another result")
    if not all(each.numel() for each in (*tensors, *leaves)):
        raise ModelError("a tensor of it has no elements")
    # Dynamo traces around this, and torch.export would take its guards, which are on other names.
    with tracing(None):
        mod, params = from_torch(module, tensors)
    main = main_of(mod)
    assert main is not None, "the importer makes a main"
    names = [name_of(each) for each in main.params]
    model = tuned(options.call(mod, params))
    return checked_part(model, names, tensors, result, options)
