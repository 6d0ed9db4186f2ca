"""What stock TVM answers, at little cost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def stock_executor(factory: Any) -> Any:
    """``GraphModule`` of what ``relay.build`` made, on the CPU.

    It runs an exported file, in which kernels that were compiled one by one are linked. TVM's
    compiler in memory takes almost three times as long for the same kernels.
    """
    import tvm
    from tvm.contrib import graph_executor

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stock.so"
        factory.export_library(str(path))
        module = tvm.runtime.load_module(str(path))
    return graph_executor.GraphModule(module["default"](tvm.cpu()))


def stock_outputs(factory: Any, **inputs: np.ndarray) -> list[np.ndarray]:
    """Outputs of what ``relay.build`` made, on the CPU."""
    executor = stock_executor(factory)
    executor.run(**inputs)
    return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]
