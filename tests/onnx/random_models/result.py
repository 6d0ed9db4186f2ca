"""Results of many random models, as they are published."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from tests.onnx.random_models.drawing import FIRST_OPSET, LAST_OPSET
from tests.onnx.random_models.judging import Verdict
from tests.onnx.random_models.left_out import FORMS_LEFT_OUT, LEFT_OUT, drawable

__all__ = ["added", "reasons_of", "result_of"]

_NAMES = re.compile(r"'[^']*'|[0-9.]+")
_COMMAND = (
    "TVM_IOS_RANDOM_MODELS=MODELS TVM_IOS_RANDOM_SEED=SEED "
    "TVM_IOS_RANDOM_RESULT=lab/results/onnx_random.json "
    "python -m pytest -n 0 tests/onnx/test_random_models.py"
)
_COUNTS = ("models by seed", "outcomes", "refused", "nodes by operator")


def reasons_of(found: Sequence[Verdict]) -> list[tuple[str, int]]:
    """Kinds of verdicts with their reasons, but for names and numbers, and how many there are."""
    told = Counter((each.kind, _NAMES.sub("…", each.reason)) for each in found)
    return [(": ".join(filter(None, pair)), count) for pair, count in told.most_common()]


def result_of(found: Sequence[Verdict], *, seed: int) -> dict[str, Any]:
    """Models by outcome, how often each operator was drawn, and what is never drawn."""
    drawn = Counter(name for each in found for name in each.operators)
    refused = [each for each in found if each.kind == "refused"]
    return {
        "command": _COMMAND,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("onnx", "onnxruntime")},
        "opsets": [FIRST_OPSET, LAST_OPSET],
        "models by seed": {str(seed): len(found)},
        "outcomes": dict(Counter(each.kind for each in found).most_common()),
        "refused": {reason.partition(": ")[2]: count for reason, count in reasons_of(refused)},
        "operators left out": LEFT_OUT,
        "forms left out": FORMS_LEFT_OUT,
        "nodes by operator": {name: drawn[name] for name in drawable()},
    }


def added(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of several seeds as one."""
    sums = {name: sum((Counter(each[name]) for each in results), Counter()) for name in _COUNTS}
    return {**results[-1], **{name: dict(counts.most_common()) for name, counts in sums.items()}}
