"""Weights of a model in ONNX that lie in files of their own, and are read from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvm_ios.core.tensor_size import require_size
from tvm_ios.errors import ModelError
from tvm_ios.support.error_text import lines_that_tell

__all__ = ["find_weights", "open_weights", "weight_files", "without_weights"]


def find_weights(onnx: Any, name: str, model: Any, folder: Path | None) -> None:
    """See that all files are there, and load constants that are no weights of the graph itself."""
    helper = onnx.external_data_helper
    tensors = list(_tensors(model.graph))
    apart = [each for each in tensors if helper.uses_external_data(each)]
    if not apart:
        return
    if folder is None:
        raise ModelError(
            f"{name} has weights in other files, such as that of {apart[0].name!r}; give the path "
            "of the model, beside which they lie"
        )
    size = sum(_stored_bytes(helper, name, tensor, folder) for tensor in apart)
    require_size(f"{name} has as its weights", (size,), 8)
    try:
        for tensor in tensors[len(model.graph.initializer) :]:
            if helper.uses_external_data(tensor):
                helper.load_external_data_for_tensor(tensor, str(folder))
                # onnx's older versions leave the mark that data lie elsewhere.
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
    # onnx refuses paths that lead elsewhere, links, and files that are too short, each in its way.
    except Exception as error:
        raise ModelError(f"{name}: {_unreadable(tensor.name, error)}") from error


def weight_files(path: Path) -> tuple[Path, ...]:
    """Files beside a model in ONNX that hold weights of it; the model is parsed only if need be.

    An OSError says that the model cannot be read, or is none.
    """
    content = path.read_bytes()
    if b"location" not in content:  # each weight that lies elsewhere says so by this word
        return ()
    try:
        import onnx  # noqa: PLC0415 - the package is there only where models are read

        model = onnx.ModelProto.FromString(content)
    # Protocol buffers have errors of their own, in a package that only onnx imports.
    except Exception as error:
        raise OSError(f"{path} cannot be read as ONNX") from error
    uses = onnx.external_data_helper.uses_external_data
    found = {
        entry.value: None  # a set that keeps its order
        for tensor in _tensors(model.graph)
        if uses(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple(path.parent / name for name in found)


def without_weights(onnx: Any, model: Any) -> Any:
    """A model for onnx's checker, which looks for files beside no model: inputs are its weights."""
    uses = onnx.external_data_helper.uses_external_data
    apart = [each for each in model.graph.initializer if uses(each)]
    if not apart:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [each for each in made.graph.initializer if not uses(each)]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    inputs = {each.name for each in model.graph.input}
    made.graph.input.extend(
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in apart
        if each.name not in inputs
    )
    return made


def open_weights(model: Any, folder: Path | None) -> None:
    """Map weights in files of their own into memory; ``model`` is an ``onnx_ir.Model``."""
    import onnx_ir  # noqa: PLC0415 - the package is there only where models are read

    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, onnx_ir.ExternalTensor):
            tensor.base_dir = str(folder)
            try:
                tensor.numpy()
            # onnx_ir refuses paths that lead elsewhere, links, and files that are too short.
            except Exception as error:
                raise ModelError(_unreadable(tensor.name, error)) from error
            if tensor.length not in (None, tensor.nbytes):
                raise ModelError(
                    f"the weights {tensor.name!r} have {tensor.length} bytes in their file and "
                    f"{tensor.nbytes} in the model; save it again"
                )


def _stored_bytes(helper: Any, name: str, tensor: Any, folder: Path) -> int:
    """Bytes of weights in a file of their own, which has to exist."""
    try:
        info = helper.ExternalDataInfo(tensor)
    except ValueError as error:  # an offset or a length that is none
        raise ModelError(f"{name}: {_unreadable(tensor.name, error)}") from error
    path = folder / info.location
    if not path.is_file():
        raise ModelError(
            f"{name} has the weights {tensor.name!r} in {path}, which is not there; put it beside "
            "the model"
        )
    return int(info.length or path.stat().st_size)


def _unreadable(weights: str, error: Exception) -> str:
    reason = lines_that_tell(error, type(error).__name__)[0]
    return f"the weights {weights!r} cannot be read: {reason}"


def _tensors(graph: Any) -> Iterator[Any]:
    """Constants of a graph and of the graphs inside it; of sparse ones, both parts."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            sparse = attribute.sparse_tensor
            yield from (attribute.t, *attribute.tensors, sparse.values, sparse.indices)
            yield from (
                each for inner in (attribute.g, *attribute.graphs) for each in _tensors(inner)
            )
