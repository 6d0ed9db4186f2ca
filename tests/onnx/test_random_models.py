"""Random models compute what onnxruntime computes: in the normal form, and compiled.

``TVM_IOS_RANDOM_MODELS`` is their number; nightly runs take 5,000, and without it each operator
is in one model at least, and most are in the third that ``make test`` judges.
``TVM_IOS_RANDOM_SEED`` draws others, ``TVM_IOS_RANDOM_JOBS`` judges several models at a time, and
``TVM_IOS_RANDOM_RESULT`` names a file, to whose results these are added. What was refused, by
reason, is printed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.onnx.random_models.drawing import LAST_OPSET
from tests.onnx.random_models.judging import BAD
from tests.onnx.random_models.left_out import LEFT_OUT, drawable
from tests.onnx.random_models.nearness import difference
from tests.onnx.random_models.processes import few_of_all, verdicts
from tests.onnx.random_models.result import added, reasons_of, result_of

NUMBER = int(os.environ.get("TVM_IOS_RANDOM_MODELS", "0"))
SEED = int(os.environ.get("TVM_IOS_RANDOM_SEED", "0"))
JOBS = int(os.environ.get("TVM_IOS_RANDOM_JOBS", "1"))
RESULT = os.environ.get("TVM_IOS_RANDOM_RESULT")
MOST_REFUSED = 0.05


def test_each_operator_is_drawn_or_left_out_for_a_reason():
    known = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= LAST_OPSET
    }
    assert known == set(drawable()) | set(LEFT_OUT)
    assert not set(drawable()) & set(LEFT_OUT)


@pytest.mark.slow(15)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.full)])
def test_random_models(part):
    numbers = range(NUMBER) or few_of_all(SEED)
    third = -(-len(numbers) // 3)
    found = verdicts(SEED, numbers[third:] if part else numbers[:third], JOBS)
    print(f"{len(found)} models, TVM_IOS_RANDOM_SEED={SEED}")
    for reason, count in reasons_of(found):
        print(f"{count:5} {reason}")
    if RESULT:
        before = [json.loads(Path(RESULT).read_text())] if Path(RESULT).exists() else []
        result = added([*before, result_of(found, seed=SEED)])
        Path(RESULT).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    bad = [each for each in found if each.kind in BAD]
    told = "\n\n".join(f"{each.kind}: {each.reason}\n{each.text}" for each in bad[:20])
    assert not bad, f"{len(bad)} of {len(found)}, TVM_IOS_RANDOM_SEED={SEED}\n{told}"
    refused = sum(each.kind == "refused" for each in found)
    assert refused <= MOST_REFUSED * len(found)


def test_a_difference_is_seen():
    one = np.ones(3, "float32")
    assert not difference(one, one)
    assert difference(one * 2, one)
    assert difference(one.astype("float64"), one)
    assert difference(np.array([3]), np.array([4]))
    assert not difference(np.array([3]), np.array([4]), steps=1)
