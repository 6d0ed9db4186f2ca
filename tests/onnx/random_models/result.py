"""The result of many random models, as it is published."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from tests.onnx.random_models.drawing import FIRST_OPSET, LAST_OPSET
from tests.onnx.random_models.judging import Verdict
from tests.onnx.random_models.left_out import FORMS_LEFT_OUT, LEFT_OUT, drawable

__all__ = ["reasons_of", "result_of"]

_NAMES = re.compile(r"'[^']*'|[0-9.]+")
_COMMAND = "python -m pytest -n 0 tests/onnx/test_random_models.py"


def reasons_of(found: Sequence[Verdict]) -> list[tuple[str, int]]:
    """How often models were of a kind, for the same reason but for names and numbers."""
    told = Counter((each.kind, _NAMES.sub("…", each.reason)) for each in found)
    return [(": ".join(filter(None, pair)), count) for pair, count in told.most_common()]


def result_of(found: Sequence[Verdict], *, seed: int) -> str:
    """Models by outcome, how often each operator was drawn, and what is never drawn, as JSON."""
    drawn = Counter(name for each in found for name in each.operators)
    result = {
        "command": f"TVM_IOS_RANDOM_MODELS={len(found)} TVM_IOS_RANDOM_SEED={seed} {_COMMAND}",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("onnx", "onnxruntime", "tvm-ios")},
        "python": platform.python_version(),
        "seed": seed,
        "opsets": [FIRST_OPSET, LAST_OPSET],
        "models": len(found),
        "outcomes": dict(Counter(each.kind for each in found).most_common()),
        "refused": {
            reason.partition(": ")[2]: count
            for reason, count in reasons_of(found)
            if reason.startswith("refused")
        },
        "left out": LEFT_OUT,
        "forms left out": FORMS_LEFT_OUT,
        "nodes by operator": {name: drawn[name] for name in drawable()},
    }
    return json.dumps(result, indent=1, ensure_ascii=False) + "\n"
