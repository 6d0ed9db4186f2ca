"""Compilation of a Relax model with a known schedule, without search or measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.relax_model import build_relax
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.relax.prepare import IMAGE_LAYOUTS, prepare
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.relax.target import resolve_target

__all__ = ["compile_model"]


def compile_model(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
    lanes: int | None,
    options: TuneOptions,
) -> CompiledModel:
    """Compiled model; arguments are those of ``compile_schedule``."""
    build, chosen = options.build, resolve_target(target)
    if options.conversion.changes:
        raise OptionError(
            f"{options.conversion.as_text()}: models of Relax are compiled as they are; leave that "
            "out"
        )
    choice = LibraryChoice(target=chosen, names=build.named_libraries, tf32=build.tf32)
    partitioned = isinstance(mod, tvm.IRModule) and is_partitioned(mod)
    if schedule is not None and partitioned:
        raise OptionError(
            "the module is partitioned already, so it has a schedule; "
            "pass either the original module or no schedule"
        )
    libraries = choice.for_schedule(read_schedule(mod) if partitioned else schedule)
    if schedule is not None:
        layouts = (*IMAGE_LAYOUTS, None) if schedule.libraries else (None, *IMAGE_LAYOUTS)
        for layout in layouts:
            prepared = prepare(mod, params, chosen, image_layout=layout)
            if prepared.extraction.graph.fingerprint() == schedule.graph_fingerprint:
                mod, params = prepared.module, None
                break
    return build_relax(mod, params, chosen, libraries=libraries).lower(schedule, lanes=lanes)
