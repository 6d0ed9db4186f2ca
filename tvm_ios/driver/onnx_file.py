"""ONNX models before TVM sees them: read, checked, and with a static shape for every input.

Free of TVM, so that open dimensions, missing files and models that are too large are refused in
less than a second.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from tvm_ios.core.tensor_size import require_size
from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.driver.onnx_weights import find_weights, open_weights, without_weights
from tvm_ios.driver.open_dimensions import ANY_RANK, OpenInput, static_shapes
from tvm_ios.errors import HostError, ModelError
from tvm_ios.onnx.rest import INSTALL_RUNTIME, REFUSE, Rest, runtime_is_here
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.extras import install_command

__all__ = ["ONNX_SUFFIX", "OnnxFile", "is_onnx_model", "is_onnx_path"]

ONNX_SUFFIX = ".onnx"

MOST_BYTES = 2**31 - 1
"""Limit of a file's bytes: protocol buffers end there, but for weights in files of their own."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that terminals and files take for something else than a part of a name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnnxFile:
    """A model in ONNX whose inputs all have static shapes."""

    name: str
    """Path of the file, or ``the model``; messages begin with it."""
    model: Any
    """The ``onnx_ir.Model`` with its weights, in the normal form, but for nodes that it lacks."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of every input that is no parameter."""
    flat: Callable[[], Any]
    """Reads the model anew, flattened but not normal: the rest is cut off of that."""
    rest: str
    """Way to treat nodes that compiled code lacks, one of ``RESTS``."""

    @classmethod
    def open(
        cls,
        source: Any,
        given: InputShapes = AS_IN_FILE,
        *,
        params: Any = None,
        rest: str = REFUSE,
    ) -> Self:
        """Model at a path, or in an ``onnx.ModelProto`` with its weights; all shapes become static.

        ``params`` has to be None: a model in ONNX holds its own. ``rest`` is that of
        :class:`~tvm_ios.driver.options.BuildOptions`.
        """
        name = str(source) if isinstance(source, str | Path) else "the model"
        if params is not None:
            raise ModelError(f"{name} holds its own parameters; leave out {params}")
        onnx = _package(name)
        if isinstance(source, str | Path):
            model, folder = _parsed(onnx, Path(source)), Path(source).parent
        else:
            if not isinstance(source, onnx.ModelProto):
                raise ModelError(
                    f"the model is a {type(source).__name__}; give a path or an onnx.ModelProto"
                )
            model, folder = onnx.ModelProto(), None
            # Shapes and weights are written into it, and the caller's model stays as it is.
            model.CopyFrom(source)
        _check_names(name, model)
        shapes = static_shapes(name, _inputs(name, model), given)
        # Opened only now: what is wrong with the shapes is told before gigabytes are read.
        find_weights(onnx, name, model, folder)
        _put_right(model)
        _set_shapes(model, shapes)
        _check(onnx, name, model)
        _check_sizes(onnx, name, model, shapes)
        flat = partial(_flat, model, shapes, folder)
        normal = _normalised(name, model, flat)
        made = cls(name=name, model=normal, shapes=shapes, flat=flat, rest=rest)
        made._require_known()
        return made

    def cut(self, refused: Mapping[Any, str]) -> tuple[Any, Rest]:
        """The front of the model, in its normal form, and the rest behind it.

        The rest begins with the nodes that are ``refused``, each with a message that names it.
        Raises ModelError, with the first message, where onnxruntime is not to run the rest or
        cannot, or where the front would be nothing.
        """
        import onnx_ir  # noqa: PLC0415 - as in _flat

        from tvm_ios.onnx.cut import cut, origin  # noqa: PLC0415
        from tvm_ios.runtime.base.rest_session import (  # noqa: PLC0415 - brings NumPy in
            RestSession,
            onnxruntime_for,
        )

        message = next(iter(refused.values()))
        self._require_runtime(message)
        made = cut(self.flat(), {origin(node) for node in refused})
        if made is None:
            raise ModelError(f"{self.name}: {message}")
        reason = message.partition("; ")[0]  # what comes then is what to do without onnxruntime
        version = onnxruntime_for(self.name).__version__
        rest = Rest(
            name=self.name,
            text=f"{made.rest_nodes} of {made.all_nodes} nodes are run by onnxruntime {version}, "
            f"since {reason}",
            fronts=tuple(str(value.name) for value in made.front.graph.outputs),
            outputs=made.outputs,
            model=onnx_ir.to_proto(
                onnx_ir.external_data.load_to_model(made.rest)
            ).SerializeToString(),
        )
        try:
            RestSession(rest, lanes=1).require_tensors()
        except HostError as error:
            raise ModelError(f"{self.name}: {message}; {error}") from error
        return made.front, rest

    def _require_known(self) -> None:
        """Refuse nodes that rules refused, unless they may be cut off."""
        from tvm_ios.onnx.normal_form import refusals  # noqa: PLC0415 - as in _flat

        for message in refusals(self.model).values():
            self._require_runtime(message)

    def _require_runtime(self, message: str) -> None:
        """Refuse the model, with the message on a node, unless onnxruntime may run the node."""
        if self.rest == REFUSE:
            raise ModelError(
                f"{self.name}: {message}; or have onnxruntime run it and all behind it: --rest "
                'onnxruntime (in Python: rest="onnxruntime")'
            )
        if not runtime_is_here():
            raise ModelError(
                f"{self.name}: {message}; or run: {INSTALL_RUNTIME}, and onnxruntime runs it and "
                "all behind it"
            )


def is_onnx_path(path: str | Path) -> bool:
    """True if a path is that of an ONNX file, by its ending."""
    return Path(path).suffix.lower() == ONNX_SUFFIX


def is_onnx_model(value: Any) -> bool:
    """True if a value is an ``onnx.ModelProto``; onnx is not loaded to see that."""
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(value, onnx.ModelProto)


def _package(name: str) -> Any:
    try:
        for module in ("onnx.checker", "onnx.external_data_helper", "onnx_ir"):
            importlib.import_module(module)
        return importlib.import_module("onnx")
    except ImportError as error:
        raise ModelError(
            f"{name} needs the package onnx, which cannot be imported ({error}); run: "
            f"{install_command('onnx')}, or save the model as Relay with tvm.ir.save_json"
        ) from error


def _parsed(onnx: Any, path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise _too_large(str(path), size)
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    try:
        model = onnx.ModelProto.FromString(content)
    # Protocol buffers have errors of their own, in a package that only onnx imports.
    except Exception as error:
        raise ModelError(f"{path} cannot be read as ONNX: {_line(error)}") from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path} cannot be read as ONNX: it holds no graph")
    return model


def _too_large(name: str, size: int) -> ModelError:
    return ModelError(
        f"{name} is a model of {size / 2**30:.1f} GiB, and protocol buffers hold at most 2 GiB; "
        "save its weights in a file of their own (onnx.save_model with save_as_external_data=True)"
    )


def _check_names(name: str, model: Any) -> None:
    for graph in (model.graph, *model.functions):
        for each in _names(graph):
            if isinstance(each, bytes) or _CONTROL.search(each):  # bytes are none in UTF-8
                raise ModelError(
                    f"{name}: the name {each!r} has control characters or is no text; give it "
                    "another one"
                )


def _names(graph: Any) -> Iterator[str | bytes]:
    """Names in a graph or a function, and in the graphs inside it."""
    yield graph.name
    for value in (*graph.input, *graph.output, *getattr(graph, "initializer", ())):
        yield getattr(value, "name", value)  # those of a function are names
        if hasattr(value, "type"):
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)


def _inputs(name: str, model: Any) -> tuple[OpenInput, ...]:
    parameters = {tensor.name for tensor in model.graph.initializer}
    parameters |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    found = []
    for value in model.graph.input:
        if value.name in parameters:
            continue
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise ModelError(
                f"{name}: input {value.name!r} is a {(kind or 'value').removesuffix('_type')} and "
                "no tensor; give a model whose inputs are tensors"
            )
        tensor = value.type.tensor_type
        extents = tuple(
            # Some write -1 or 0 for an open one, or the name "?", which says nothing of others.
            dim.dim_value if dim.dim_value > 0 else dim.dim_param.strip("?")
            for dim in tensor.shape.dim
        )
        if not tensor.HasField("shape"):
            extents = (ANY_RANK,)
        found.append(OpenInput(name=value.name, extents=extents))
    return tuple(found)


def _put_right(model: Any) -> None:
    from tvm_ios.onnx.overlooked import put_right  # noqa: PLC0415 - it needs the package onnx

    put_right(model)


def _set_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write shapes of inputs into a model."""
    for value in model.graph.input:
        if value.name in shapes:
            shape = value.type.tensor_type.shape
            shape.ClearField("dim")
            shape.SetInParent()  # a scalar has a shape, too
            for extent in shapes[value.name]:
                shape.dim.add().dim_value = extent


def _check(onnx: Any, name: str, model: Any) -> None:
    if model.ByteSize() > MOST_BYTES:
        raise _too_large(name, model.ByteSize())
    try:
        onnx.checker.check_model(without_weights(onnx, model))
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{name} is no valid ONNX: {_line(error)}") from error


def _flat(model: Any, shapes: Mapping[str, tuple[int, ...]], folder: Path | None) -> Any:
    import onnx_ir  # noqa: PLC0415 - the package onnx is there only where models are read

    from tvm_ios.onnx.normal_form import flattened  # noqa: PLC0415

    made = onnx_ir.from_proto(model)
    open_weights(made, folder)
    return flattened(made, shapes)


def _normalised(name: str, model: Any, flat: Callable[[], Any]) -> Any:
    from tvm_ios.onnx.normal_form import walked  # noqa: PLC0415 - as in _flat
    from tvm_ios.onnx.sparse import make_dense  # noqa: PLC0415

    try:
        make_dense(model)  # which onnx_ir does not read otherwise
        return walked(flat(), keeps_refused=True)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error


def _check_sizes(onnx: Any, name: str, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for value in model.graph.input:
        if value.name in shapes:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            what = f"{name}: input {value.name!r} is"
            require_size(what, shapes[value.name], 8 * dtype.itemsize)


def _line(error: Exception) -> str:
    """Reason of an error alone: onnx prints a node's context over many lines."""
    return lines_that_tell(error, type(error).__name__)[0]
