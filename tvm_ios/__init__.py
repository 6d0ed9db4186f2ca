"""IOS, the inter-operator scheduler (Ding et al., MLSys 2021), as a plugin for TVM.

Every name is loaded when it is used, so the TVM-free rooms import without TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.compile.model import CompiledModel
    from tvm_ios.compile.shapes import CompiledShapes
    from tvm_ios.core.conversion import Conversion
    from tvm_ios.core.precision.low_precision import Precision
    from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
    from tvm_ios.driver.build_options import BuildOptions, DatabaseOptions
    from tvm_ios.driver.chain.simple_tvm import SimpleTVM
    from tvm_ios.driver.compile_schedule import compile_schedule
    from tvm_ios.driver.effort import Effort
    from tvm_ios.driver.input_shapes import InputShapes
    from tvm_ios.driver.model_source import from_onnx, from_torch
    from tvm_ios.driver.options import TuneOptions
    from tvm_ios.driver.shapes import tune_shapes
    from tvm_ios.driver.tune import tune
    from tvm_ios.errors import TvmIosError
    from tvm_ios.measure.compare import CompareOptions
    from tvm_ios.measure.machine_mode import ModeOptions
    from tvm_ios.measure.sampling import MeasureOptions
    from tvm_ios.runtime.artifact.artifact import load
    from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
    from tvm_ios.runtime.cpu.shapes_module import ShapesModule
    from tvm_ios.search.options import SearchOptions
    from tvm_ios.tuning.device_options import DeviceOptions
    from tvm_ios.tuning.options import TuningOptions

__all__ = [
    "BuildOptions",
    "CompareOptions",
    "CompiledModel",
    "CompiledShapes",
    "Conversion",
    "DatabaseOptions",
    "DeviceOptions",
    "Effort",
    "InputShapes",
    "InterOpSchedule",
    "MeasureOptions",
    "ModeOptions",
    "MultiStreamGraphModule",
    "Precision",
    "SearchOptions",
    "ShapesModule",
    "SimpleTVM",
    "Stage",
    "Strategy",
    "TuneOptions",
    "TuningOptions",
    "TvmIosError",
    "compile_schedule",
    "from_onnx",
    "from_torch",
    "load",
    "tune",
    "tune_shapes",
]

_HOMES = {
    "BuildOptions": "tvm_ios.driver.build_options",
    "CompareOptions": "tvm_ios.measure.compare",
    "CompiledModel": "tvm_ios.compile.model",
    "CompiledShapes": "tvm_ios.compile.shapes",
    "Conversion": "tvm_ios.core.conversion",
    "DatabaseOptions": "tvm_ios.driver.build_options",
    "DeviceOptions": "tvm_ios.tuning.device_options",
    "Effort": "tvm_ios.driver.effort",
    "InputShapes": "tvm_ios.driver.input_shapes",
    "InterOpSchedule": "tvm_ios.core.schedule",
    "MeasureOptions": "tvm_ios.measure.sampling",
    "ModeOptions": "tvm_ios.measure.machine_mode",
    "MultiStreamGraphModule": "tvm_ios.runtime.cpu.graph_module",
    "Precision": "tvm_ios.core.precision.low_precision",
    "SearchOptions": "tvm_ios.search.options",
    "ShapesModule": "tvm_ios.runtime.cpu.shapes_module",
    "SimpleTVM": "tvm_ios.driver.chain.simple_tvm",
    "Stage": "tvm_ios.core.schedule",
    "Strategy": "tvm_ios.core.schedule",
    "TuneOptions": "tvm_ios.driver.options",
    "TuningOptions": "tvm_ios.tuning.options",
    "TvmIosError": "tvm_ios.errors",
    "compile_schedule": "tvm_ios.driver.compile_schedule",
    "from_onnx": "tvm_ios.driver.model_source",
    "from_torch": "tvm_ios.driver.model_source",
    "load": "tvm_ios.runtime.artifact.artifact",
    "tune": "tvm_ios.driver.tune",
    "tune_shapes": "tvm_ios.driver.shapes",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(home), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "tvm":
            import_module("tvm_ios.host.relay_tvm").require_relay_for(f"tvm_ios.{name}")
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
