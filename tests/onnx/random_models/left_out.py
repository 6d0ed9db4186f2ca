"""Operators that are not drawn, with reasons."""

from __future__ import annotations

import importlib
import pkgutil

from tests.onnx.random_models import recipes
from tests.onnx.random_models.drawing import RECIPES

__all__ = ["FORMS_LEFT_OUT", "LEFT_OUT", "drawable"]

for _found in pkgutil.iter_modules(recipes.__path__):
    importlib.import_module(f"{recipes.__name__}.{_found.name}")

_DRAWS = "draws numbers, and runtimes draw others"
_TEXT = "is about text"
_FILES = "reads files of images, which onnxruntime does not"
_VALUES = "has results whose shape only values tell"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("Bernoulli", "Multinomial"), _DRAWS),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _DRAWS
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXT,
    ),
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), _VALUES),
    "ImageDecoder": _FILES,
}
"""Reasons by operator."""
FORMS_LEFT_OUT = {
    "Dropout's mask before opset 12": "is false in onnxruntime, and true in onnx's reference",
    "Resize by tf_crop_and_resize of an axis that keeps its extent": (
        "crops in onnx's reference, and not in onnxruntime"
    ),
    "Resize with negative axes": "resizes none in onnxruntime",
}
"""Reasons by form of an operator that is drawn otherwise: what onnxruntime gets wrong."""


def drawable() -> list[str]:
    """Operators that have a recipe, in order."""
    return sorted(RECIPES)
