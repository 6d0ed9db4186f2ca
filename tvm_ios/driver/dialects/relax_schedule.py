"""Compilation of a Relax model with a known schedule, without search or measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.built_model import build_model, build_prepared
from tvm_ios.compile.dialects.dialect import in_precision
from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.plan_of import widest_stage
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import lanes_for_target, require_known_target
from tvm_ios.driver.dialects.relax_options import relax_options
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.taken_rest import taken_rest
from tvm_ios.errors import OptionError
from tvm_ios.relax.prepare import PreparedModule, fuse
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.transforms.image_layouts import IMAGE_LAYOUTS
from tvm_ios.runtime.base.module_attributes import parts_of
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["compile_model"]


def compile_model(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
    lanes: int | None,
    options: TuneOptions,
) -> CompiledModel:
    """Relax model with the kernels of a known schedule, as ``compile_schedule`` documents it."""
    build, chosen = relax_options(options).build, resolve_target(target)
    choice = LibraryChoice(target=chosen, names=build.named_libraries, tf32=build.tf32)
    rest = taken_rest(mod, options)
    parts = parts_of(mod) if isinstance(mod, tvm.IRModule) else ()
    partitioned = isinstance(mod, tvm.IRModule) and is_partitioned(mod)
    if schedule is not None and partitioned:
        raise OptionError(
            "the module is partitioned already, so it has a schedule; "
            "pass either the original module or no schedule"
        )
    known = read_schedule(mod) if partitioned else schedule
    build.require_exact(known)
    libraries = choice.for_schedule(known)
    require_known_target(chosen)
    chosen_lanes = lanes_for_target(lanes, chosen)
    if partitioned:
        model = lower_partitioned(mod, params, chosen, lanes=chosen_lanes, libraries=libraries)
        return model.of_network(rest, parts)
    if schedule is None:
        built = build_model(mod, params, chosen, libraries=libraries)
        schedule = sequential_schedule(built.graph)
    else:
        prepared = _prepared_for(schedule, mod, params, chosen)
        verify_schedule(schedule, prepared.extraction.graph)  # before kernels are compiled
        built = replace(build_prepared(prepared.with_loops()), libraries=libraries)
    streams = chosen_lanes or widest_stage(schedule)
    return lower_schedule(built, schedule, lanes=streams).of_network(rest, parts)


def _prepared_for(
    schedule: InterOpSchedule, mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> PreparedModule:
    """Model in the layout and precision that a schedule was found for; in any if it fits none."""
    layouts: tuple[str | ImageForm | None, ...] = (None, *IMAGE_LAYOUTS)
    if schedule.form is not None:
        layouts = (schedule.form,)
    elif schedule.libraries:
        layouts = (*IMAGE_LAYOUTS, None)
    for layout in layouts:
        exact = fuse(mod, params, target, image_layout=layout)
        prepared: PreparedModule = in_precision(exact, schedule.low) or exact
        if prepared.extraction.graph.fingerprint() == schedule.graph_fingerprint:
            break
    return prepared
