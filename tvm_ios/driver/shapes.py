"""Tuning of a model in several shapes, each as if it were alone, for one program of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.shapes import CompiledShapes
from tvm_ios.core.shapes import shape_names
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.driver.given_inputs import given_here
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.kept.store import KeptResult, KeptResults
from tvm_ios.driver.kept.tune_call import budget_of_call
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import DEFAULTS, TuneOptions
from tvm_ios.driver.tune import tune
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.base.module_attributes import parts_of, rest_of
from tvm_ios.support.progress import Progress, ProgressListener
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["tune_shapes", "tuned_shapes"]


def tune_shapes(
    model: Any,
    input_shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
    target: Any = None,
    *,
    time_budget: float | TimeBudget | None = None,
    progress: ProgressListener | None = None,
    **arguments: Any,
) -> CompiledShapes:
    """Tune one model in several shapes, and compile them as one program that stores weights once.

    Each shape has kernels, layouts and a schedule of its own, as :func:`tvm_ios.tune` finds them
    for it alone. What runs is chosen by the shapes of the inputs.

    Parameters
    ----------
    model
        An ONNX model or its path, whose file leaves dimensions open. Or the model in each shape, as
        a list of modules, or of pairs of one with its parameters.
    input_shapes
        Shapes by input of an ONNX model, for each shape that it is to run in; left out where the
        model is a list.
    target, time_budget, progress
        As of ``tune``, of all shapes together; CPUs only. Each has an equal share of the time that
        is left. Models of a :class:`~tvm_ios.support.progress.Progress` have the shapes so far.
    arguments
        Further arguments of ``tune``, for each shape.

    Raises
    ------
    OptionError
        If a shape is given twice, shapes are of different inputs, or the target is no CPU here.
    ModelError
        If the model cannot be read in one of the shapes, or onnxruntime runs the rest of it.

    Other errors are those of ``tune``.

    Examples
    --------
    >>> import tvm_ios
    >>> shapes = [{"image": (1, 3, 224, 224)}, {"image": (1, 3, 320, 320)}]
    >>> model = tvm_ios.tune_shapes("net.onnx", shapes)  # doctest: +SKIP
    >>> model.export_library("net.so")  # doctest: +SKIP
    """
    budget = budget_of_call(time_budget)
    sources = _sources(model, input_shapes)
    return tuned_shapes(sources, target, time_budget=budget, progress=progress, **arguments)


def tuned_shapes(
    sources: Sequence[ModelSource],
    target: Any = None,
    *,
    time_budget: TimeBudget,
    progress: ProgressListener | None = None,
    tune_one: Callable[..., CompiledModel] = tune,
    options: TuneOptions = DEFAULTS,
    **arguments: Any,
) -> CompiledShapes:
    """Model of :func:`tune_shapes`, of modules in each shape; ``tune_one`` tunes one of them."""
    named = dict(zip(shape_names([_shapes_of(each) for each in sources]), sources, strict=True))
    _require_cpu(target, options)
    if arguments.get("inputs") is not None:
        raise OptionError(
            "inputs are given, which fit one shape only; leave them out: errors are checked on "
            "made-up ones"
        )
    models: dict[str, CompiledModel] = {}
    for name, source in named.items():
        heard = progress
        if progress is not None:
            heard = _told(progress, name, dict(models), len(named), time_budget.spent_s)
        models[name] = tune_one(
            source.mod,
            source.params,
            target,
            time_budget=time_budget.part(len(named) - len(models)),
            progress=heard,
            options=options,
            **arguments,
        )
    return _kept(CompiledShapes(models=models), time_budget)


def _sources(
    model: Any, input_shapes: Sequence[Mapping[str, Sequence[int]]] | None
) -> list[ModelSource]:
    if input_shapes is not None:
        given = [
            InputShapes(shapes={name: tuple(shape) for name, shape in each.items()})
            for each in input_shapes
        ]
        return [ModelSource.of(model, None, each) for each in given]
    if not isinstance(model, list):
        raise OptionError(
            "one model is given and no input_shapes; give the shapes of an ONNX model, or the "
            "model in each shape as a list"
        )
    return [ModelSource.of(each) for each in model]


def _shapes_of(source: ModelSource) -> dict[str, tuple[int, ...]]:
    """Shape of each input of a model that can be one of several shapes."""
    if rest_of(source.mod) is not None or parts_of(source.mod):
        raise ModelError(
            f"{source.name} has a rest that onnxruntime runs, or parts, which is for models in one "
            "shape; make a file of each shape"
        )
    types = given_here().input_types(source.mod, source.params or {})
    return {name: each.shape for name, each in types.items()}


def _require_cpu(target: Any, options: TuneOptions) -> None:
    on_gpu = target is not None and is_gpu_target(dialect_here().resolve_target(target))
    if on_gpu or options.device.is_remote:
        where = f"target is {target!r}" if on_gpu else "the device is behind an RPC tracker"
        raise OptionError(
            f"{where}, but several shapes in one file are for the CPU of this machine; tune a file "
            "for each shape"
        )


def _told(
    progress: ProgressListener,
    name: str,
    done: Mapping[str, CompiledModel],
    count: int,
    spent_s: float,
) -> ProgressListener:
    """Listener to the tuning of one shape, which tells of all, after so many seconds of others."""
    place = f"shape {len(done) + 1} of {count}"

    def tell(step: Progress) -> None:
        model = step.model
        if model is not None:
            model = CompiledShapes(models={**done, name: model})
        detail = f"{place}: {step.detail}" if step.detail else place
        elapsed_s = spent_s + step.elapsed_s
        progress(replace(step, detail=detail, elapsed_s=elapsed_s, model=model))

    return tell


def _kept(shapes: CompiledShapes, budget: TimeBudget) -> CompiledShapes:
    """The model with its file in the cache of results, where each shape is a result there."""
    results = KeptResults()
    files = {name: results.file_of(each.kept_as) for name, each in shapes.models.items()}
    known = [results.result_of(each.kept_as) for each in shapes.models.values()]
    found = [each for each in known if each is not None]
    if None in files.values() or len(found) < len(known):
        return shapes
    key = digest_of(["shapes", [[name, str(file)] for name, file in files.items()]])
    if results.file_of(key) is None:
        result = KeptResult(
            report=shapes.report(),
            notes=(),
            certain=all(each.certain for each in found),
            time_budget=budget.limit_s,
            beside_stock=all(each.beside_stock for each in found),
        )
        if not results.keep(key, result, shapes.export_library):
            return shapes
    return replace(shapes, kept_as=key, file=results.file_of(key))
