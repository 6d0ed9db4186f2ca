"""IOS, the inter-operator scheduler (Ding et al., MLSys 2021), as a plugin for TVM.

The front door is loaded when it is used, so the TVM-free rooms import without TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.compiled import CompiledModel
    from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
    from tvm_ios.errors import TvmIosError
    from tvm_ios.front_door import compile_schedule, tune
    from tvm_ios.runtime.artifact import load
    from tvm_ios.runtime.graph_module import MultiStreamGraphModule

__all__ = [
    "CompiledModel",
    "InterOpSchedule",
    "MultiStreamGraphModule",
    "Stage",
    "Strategy",
    "TvmIosError",
    "compile_schedule",
    "load",
    "tune",
]

_HOMES = {
    "CompiledModel": "tvm_ios.compiled",
    "InterOpSchedule": "tvm_ios.core.schedule",
    "MultiStreamGraphModule": "tvm_ios.runtime.graph_module",
    "Stage": "tvm_ios.core.schedule",
    "Strategy": "tvm_ios.core.schedule",
    "TvmIosError": "tvm_ios.errors",
    "compile_schedule": "tvm_ios.front_door",
    "load": "tvm_ios.runtime.artifact",
    "tune": "tvm_ios.front_door",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
