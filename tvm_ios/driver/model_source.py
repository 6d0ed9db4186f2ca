"""Models as users name them: a benchmark network, a file, or a module of TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import tvm

from tvm_ios.driver.build_options import require_rest
from tvm_ios.driver.given_inputs import given_here
from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.driver.onnx_file import OnnxFile, is_onnx_model, is_onnx_path
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models import MODEL_NAMES, by_name
from tvm_ios.onnx.rest import REFUSE
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.support.near_name import did_you_mean

__all__ = ["ModelSource", "from_onnx", "from_torch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """A module, its parameters, and a name for reports."""

    name: str
    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    """Parameters by name; None where weights are inputs on purpose."""

    @classmethod
    def of(
        cls,
        model: Any,
        params: Any = None,
        shapes: InputShapes = AS_IN_FILE,
        *,
        rest: str = REFUSE,
    ) -> Self:
        """Model that a user's argument means, of those that ``SimpleTVM.from_model`` lists.

        ``rest`` is that of :class:`~tvm_ios.driver.options.BuildOptions`.
        """
        match model:
            case str() | Path():
                mod, found = _named_model(str(model), params, shapes, rest)
                return cls(name=Path(model).stem, mod=mod, params=found)
            case tvm.IRModule():
                shapes.require_none("a module")
                return cls(name="model", mod=model, params=params)
            case (tvm.IRModule() as mod, found):
                if params is not None:
                    raise OptionError("the model is a pair with parameters; leave out params")
                shapes.require_none("a module")
                return cls(name="model", mod=mod, params=found)
        if is_onnx_model(model):
            mod, found = _imported(OnnxFile.open(model, shapes, params=params, rest=rest))
            return cls(name=model.graph.name or "model", mod=mod, params=found)
        raise ModelError(
            f"the model is a {type(model).__name__}; give a module of TVM, a pair (mod, params), "
            "an onnx.ModelProto, the name of a network of tvm_ios.models, or a file"
        )

    @classmethod
    def of_onnx(cls, file: OnnxFile) -> Self:
        """Model in an ONNX file that was opened before TVM was loaded."""
        mod, params = _imported(file)
        return cls(name=Path(file.name).stem, mod=mod, params=params)


def from_onnx(
    model: Any,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    batch_size: int | None = None,
    rest: str = REFUSE,
) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Module and parameters of a model in ONNX, for :func:`tvm_ios.tune`.

    Parameters
    ----------
    model
        A path, or an ``onnx.ModelProto``.
    shapes
        Shapes of inputs whose file leaves dimensions open.
    batch_size
        Extent of every open first dimension that no shape gives.
    rest
        ``"onnxruntime"`` gives the module of a front where the model has nodes that cannot be
        compiled, such as ``NonMaxSuppression``: :func:`tvm_ios.tune` and
        :func:`tvm_ios.compile_schedule` make a model of it whose end onnxruntime runs. Others that
        take the module compute the front alone. ``"refuse"`` refuses such a model.

    Returns
    -------
    The module, whose constants are the weights, and its parameters, of which there are none: an
    empty dictionary, or None where the file has weights as inputs.

    Raises
    ------
    ModelError
        If the model cannot be read; the message names the file, the node and its operator.
    OptionError
        If a dimension stays open, or a shape is given that the input cannot have.

    Examples
    --------
    >>> import tvm_ios
    >>> mod, params = tvm_ios.from_onnx("net.onnx", batch_size=1)  # doctest: +SKIP
    >>> compiled = tvm_ios.tune(mod, params)  # doctest: +SKIP
    """
    given = InputShapes(
        shapes={name: tuple(shape) for name, shape in (shapes or {}).items()},
        batch_size=batch_size,
    )
    require_rest(rest)
    return _imported(OnnxFile.open(model, given, rest=rest))


def from_torch(model: Any, example_inputs: Any) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module and parameters of a model of PyTorch, for :func:`tvm_ios.tune`.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` in evaluation mode, or a ``torch.export.ExportedProgram``. With a TVM
        that has Relay, either may be quantised by ``convert_pt2e`` of torchao.
    example_inputs
        One tensor or a tuple of them: their shapes and data types are those of the model. Values
        decide nothing but branches of Python, of which those taken are imported.

    Returns
    -------
    The module, whose inputs have the names that ``forward`` gives them, those without a use
    included, and parameters by name; none with TVM 0.27, where weights are constants.

    Raises
    ------
    ModelError
        If torch is missing, the model is in training mode or cannot be traced or exported, changes
        a tensor in place, or uses an operator that TVM does not know; the operators are named.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> net = torch.nn.Conv2d(3, 8, 3).eval()  # doctest: +SKIP
    >>> mod, params = from_torch(net, torch.randn(1, 3, 32, 32))  # doctest: +SKIP
    """
    # Each imports a dialect that only one TVM has.
    dialect: Any = import_module(f"tvm_ios.{DIALECT}.frontends.torch")
    mod, params = dialect.from_torch(model, example_inputs)
    return mod, params


def _imported(file: OnnxFile) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    mod, params = given_here().imported(file)
    return mod, params


def _named_model(name: str, params: str | Path | None, shapes: InputShapes, rest: str) -> Any:
    """Module and parameters of a network by name, or of a file."""
    if is_onnx_path(name):
        return _imported(OnnxFile.open(name, shapes, params=params, rest=rest))
    path, dialect = Path(name), given_here()
    if name.replace("-", "_") in MODEL_NAMES:
        if params is not None:
            raise OptionError(f"{name} has weights of its own; leave out --params {params}")
        if shapes.shapes:
            shapes.require_none(name)
        batch = shapes.batch_size
        return by_name(name)() if batch is None else by_name(name)(batch_size=batch)
    if path.suffix.lower() not in dialect.FILE_SUFFIXES and not path.exists():
        raise ModelError(
            f"there is no network and no file named {name!r}; networks are "
            f"{', '.join(MODEL_NAMES)}, and files end in {', '.join(dialect.FILE_SUFFIXES)}"
            f"{did_you_mean(name.replace('-', '_'), MODEL_NAMES)}"
        )
    shapes.require_none(name)
    return dialect.read_file(path, params)
