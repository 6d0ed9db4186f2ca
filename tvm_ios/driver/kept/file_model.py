"""Digests of models as the command line names them, taken without TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tvm_ios.cost.profile_key import digest_of
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.onnx_file import is_onnx_path
from tvm_ios.driver.onnx_weights import weight_files
from tvm_ios.host.software import file_digest

__all__ = ["file_model_digest", "models_digest"]


def models_digest(
    models: Mapping[str, str],
    params: Path | None,
    shapes: Sequence[InputShapes],
    share: Sequence[str],
) -> str | None:
    """Digest of models by the name of their part, or of a model, which has none, in its shapes.

    None where one cannot be read.
    """
    digests = [
        (name, file_model_digest(model, params, each))
        for name, model in models.items()
        for each in shapes
    ]
    if any(digest is None for _, digest in digests):
        return None
    if len(digests) == 1:
        return digests[0][1]
    return digest_of(["parts" if len(models) > 1 else "shapes", digests, list(share)])


def file_model_digest(model: str, params: Path | None, shapes: InputShapes) -> str | None:
    """Digest of a file's bytes, weights beside it included, or of a network's name.

    None for a model that cannot be read: who tunes it says why.
    """
    path = Path(model)
    try:
        if path.suffix:
            files = [path, *(weight_files(path) if is_onnx_path(path) else ())]
            named = [path.suffix.lower(), *map(file_digest, files)]
        else:  # its code is in the digest of all code
            named = [model.replace("-", "_")]
        given = None if params is None else [params.suffix.lower(), file_digest(params)]
    except OSError:
        return None
    extents = sorted((name, list(shape)) for name, shape in shapes.shapes.items())
    return digest_of(["file", named, given, extents, shapes.batch_size])
