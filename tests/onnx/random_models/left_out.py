"""Operators that are not drawn, with reasons."""

from __future__ import annotations

from tests.onnx.random_models import element_wise, layers, places
from tests.onnx.random_models.drawing import RECIPES

__all__ = ["LEFT_OUT", "drawable"]

_ = element_wise, layers, places  # they add recipes

_DRAWS = "draws numbers"
_TEXT = "is about text"
_PARTS = "has values that are no tensors; tests of their own"
_GRAPHS = "has graphs inside; tests of their own"
_VALUES = "has results whose shape only values tell"
_WINDOW = "makes constants only"
_TRAINING = "is for training"
_LATER = "has no recipe yet"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("Bernoulli", "Multinomial"), _DRAWS),
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _DRAWS
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXT,
    ),
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SplitToSequence",
        ),
        _PARTS,
    ),
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), _GRAPHS),
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), _VALUES),
    **dict.fromkeys(
        ("BlackmanWindow", "Constant", "HammingWindow", "HannWindow", "MelWeightMatrix"), _WINDOW
    ),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(("Det", "DeformConv", "ImageDecoder", "MaxRoiPool", "MaxUnpool"), _LATER),
    **dict.fromkeys(("RoiAlign", "RotaryEmbedding", "STFT"), _LATER),
}
"""Reasons by operator."""


def drawable() -> list[str]:
    """Operators that have a recipe, in order."""
    return sorted(RECIPES)
