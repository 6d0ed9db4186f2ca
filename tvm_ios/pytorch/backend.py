"""``torch.compile(model, backend="tvm_ios")``: parts for TVM are scheduled, the rest is torch's.

PyTorch finds :func:`tvm_ios` by the entry point ``torch_dynamo_backends``, and hands it a graph
whenever it has captured one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.backends.common import fake_tensor_unsupported

from tvm_ios.errors import OptionError
from tvm_ios.pytorch.captured import CapturedGraph
from tvm_ios.pytorch.options import BackendOptions
from tvm_ios.pytorch.program import GraphProgram

__all__ = ["tvm_ios"]

_LOG = logging.getLogger(__name__)


# torch may hand over examples without values, and graphs are run with them here.
@fake_tensor_unsupported
def tvm_ios(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Callable[..., Any]:
    """A graph that torch captured, as a function that runs it with schedules of our own.

    Example inputs are tensors of the caller, weights, and numbers where a size is free. Options are
    those of :class:`BackendOptions`.
    """
    if unknown:
        raise OptionError(
            f"the backend tvm_ios takes options={{…}} only, and not {', '.join(sorted(unknown))}"
        )
    chosen = BackendOptions.of(options)
    graph = CapturedGraph.of(gm, example_inputs)
    if reason := graph.why_torch(gradients=torch.is_grad_enabled()):
        _LOG.warning("tvm_ios leaves a graph to torch: %s", reason)
        return gm.forward
    return GraphProgram(graph, chosen)
