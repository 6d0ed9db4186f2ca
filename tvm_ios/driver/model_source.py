"""Models as users name them: a benchmark network, a file, or a Relay module itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tvm

from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models import MODEL_NAMES, by_name
from tvm_ios.relay.model_file import MODEL_SUFFIXES, read_model

__all__ = ["ModelSource", "named_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A Relay module, its parameters, and a name for reports."""

    name: str
    mod: tvm.IRModule
    params: Mapping[str, Any]

    @classmethod
    def of(cls, model: Any, params: Any = None) -> Self:
        """The model that somebody means.

        Parameters
        ----------
        model
            A Relay module, a pair of it and its parameters, a name of :mod:`tvm_ios.models`, or a
            file that :func:`~tvm_ios.relay.model_file.read_model` reads.
        params
            Parameters by name, or, beside a file, the file that holds them.

        Raises
        ------
        ModelError
            If it is none of these, or a file cannot be read.
        OptionError
            If there are parameters twice.
        """
        match model:
            case str() | Path():
                mod, found = named_model(str(model), params)
                return cls(name=Path(model).stem, mod=mod, params=found)
            case tvm.IRModule():
                return cls(name="model", mod=model, params=params or {})
            case (tvm.IRModule() as mod, found):
                if params is not None:
                    raise OptionError("the model is a pair with parameters; leave out params")
                return cls(name="model", mod=mod, params=found or {})
        raise ModelError(
            f"the model is a {type(model).__name__}; give a Relay module, a pair (mod, params), "
            "the name of a network of tvm_ios.models, or a file"
        )


def named_model(name: str, params: str | Path | None = None) -> Any:
    """A network of ours by name, or what a file holds: the module and its parameters.

    Raises
    ------
    ModelError
        If there is no such network or file, or it cannot be read.
    OptionError
        If a network, which has weights of its own, is to have others.
    """
    path = Path(name)
    if name.replace("-", "_") in MODEL_NAMES:
        if params is not None:
            raise OptionError(f"{name} has weights of its own; leave out --params {params}")
        return by_name(name)()
    if path.suffix.lower() not in MODEL_SUFFIXES and not path.exists():
        raise ModelError(
            f"there is no network and no file named {name!r}; networks are "
            f"{', '.join(MODEL_NAMES)}, and files end in {', '.join(MODEL_SUFFIXES)}"
        )
    return read_model(path, params)
