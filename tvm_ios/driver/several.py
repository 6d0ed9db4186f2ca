"""Several models that a user gives as one network: named, read and joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import tvm

from tvm_ios.core.parts import SEPARATOR, named_models, require_part_names
from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.runtime.base.module_attributes import rest_of
from tvm_ios.runtime.base.tvm_names import DIALECT

__all__ = ["are_several", "joined"]


def are_several(model: Any) -> bool:
    """True for what :func:`joined` takes: models in a list or a tuple, or by name."""
    return isinstance(model, list | tuple | Mapping)


def joined(
    models: Sequence[Any] | Mapping[str, Any],
    params: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    share: str | Sequence[str] = (),
    shapes: InputShapes = AS_IN_FILE,
) -> tvm.IRModule:
    """Module of one network that has each model as a named part, parameters bound.

    Parameters
    ----------
    models
        Models by name of their part, or one after another: a module of TVM, a pair of one with its
        parameters, an ONNX model, the name of a network, or a path. Without names, parts are named
        after the file or network, or ``model``, with a number where several are named alike.
    params
        Parameters of each model, given as the models are; None for those that bring theirs.
    share
        Inputs that are one for all models that have them; all others are named ``part__input``.
    shapes
        Shapes of inputs that ONNX models leave open, by ``part__input`` or a shared name.

    Raises
    ------
    ModelError, OptionError
        If a model cannot be read or joined; the message names the part.
    """
    named = named_models(models)
    given = _params_of(named, params)
    shared = (share,) if isinstance(share, str) else tuple(share)
    sources = {
        name: ModelSource.of(model, given[name], _shapes_of(name, shapes, shared))
        for name, model in named.items()
    }
    _require_known_shapes(shapes, named, shared)
    require_part_names(list(sources))
    pairs = {name: (source.mod, source.params) for name, source in sources.items()}
    for name, (mod, _) in pairs.items():
        rest = rest_of(mod) if isinstance(mod, tvm.IRModule) else None
        if rest is not None:
            raise ModelError(
                f"part {name!r}: {rest.text}, which is for single models; compile it alone"
            )
    # Each imports a dialect that only one TVM has.
    dialect: Any = import_module(f"tvm_ios.{DIALECT}.frontends.joined")
    network: tvm.IRModule = dialect.joined_module(pairs, shared)
    return network


def _params_of(named: Mapping[str, Any], params: Any) -> dict[str, Any]:
    """Parameters of each part, None for those that bring theirs."""
    if params is None:
        return dict.fromkeys(named)
    if isinstance(params, Mapping):
        unknown = [name for name in params if name not in named]
        if unknown:
            raise OptionError(
                f"params has {unknown[0]!r}, which is no part; give parameters by part, of "
                f"{', '.join(named)}"
            )
        return {name: params.get(name) for name in named}
    if not isinstance(params, list | tuple) or len(params) != len(named):
        raise OptionError(
            f"there are {len(named)} models; give params as a list of {len(named)}, None for each "
            "model that brings its own, or by name of the part"
        )
    return dict(zip(named, params, strict=True))


def _shapes_of(part: str, shapes: InputShapes, share: Sequence[str]) -> InputShapes:
    """Shapes of one part's inputs, by their names in its model."""
    own = {
        name.removeprefix(f"{part}{SEPARATOR}"): shape
        for name, shape in shapes.shapes.items()
        if name in share or name.startswith(f"{part}{SEPARATOR}")
    }
    return InputShapes(shapes=own, batch_size=shapes.batch_size)


def _require_known_shapes(
    shapes: InputShapes, named: Mapping[str, Any], share: Sequence[str]
) -> None:
    for name in shapes.shapes:
        if name not in share and name.split(SEPARATOR)[0] not in named:
            raise OptionError(
                f"a shape is given for input {name!r}, which is of no part; name inputs "
                f"part{SEPARATOR}input, where parts are {', '.join(named)}"
            )
