"""Random models compute what onnxruntime computes: in the normal form, and compiled.

``TVM_IOS_RANDOM_MODELS`` is their number, 300 if it is not set; nightly runs take 5,000.
``TVM_IOS_RANDOM_SEED`` repeats a run. What was right and what was refused, by reason, is printed.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.onnx.random_models.judging import Verdict, compiled_verdicts, drawn, normal_verdict
from tests.onnx.random_models.left_out import LEFT_OUT, drawable

NUMBER = int(os.environ.get("TVM_IOS_RANDOM_MODELS", "300"))
SEED = int(os.environ.get("TVM_IOS_RANDOM_SEED", str(random.SystemRandom().getrandbits(31))))


def models(number, name):
    """So many models that onnxruntime runs, the first node of each operator as often."""
    operators = drawable()
    found = []
    draws = settings(
        max_examples=number,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    @seed(SEED)
    @draws
    @given(st.randoms(use_true_random=True))
    def draw(chance):
        model = drawn(chance, operators[len(found) % len(operators)])
        found.append(model)

    draw()
    print(f"{name}: {number} models, TVM_IOS_RANDOM_SEED={SEED}")
    return [model for model in found if model is not None]


def require_none_wrong(verdicts):
    """Print how many are of each kind, and refusals by reason; fail where one is wrong."""
    print(Counter(each.kind for each in verdicts))
    reasons = Counter(
        re.sub(r"'[^']*'|\d+", "…", each.reason) for each in verdicts if each.kind == "refused"
    )
    for reason, count in reasons.most_common():
        print(f"{count:5} refused: {reason}")
    for name, reason in LEFT_OUT.items():
        print(f"      left out: {name}, which {reason}")
    wrong = [each for each in verdicts if each.kind in ("wrong", "raw", "crash")]
    told = "\n\n".join(f"{each.kind}: {each.reason}\n{each.text}" for each in wrong[:20])
    assert not wrong, f"{len(wrong)} of {len(verdicts)}, TVM_IOS_RANDOM_SEED={SEED}\n{told}"


def test_each_operator_is_drawn_or_left_out_for_a_reason():
    known = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and schema.since_version <= 23
    }
    missing = known - set(drawable()) - set(LEFT_OUT)
    assert not missing


@pytest.mark.slow
def test_normal_forms_of_random_models():
    require_none_wrong([normal_verdict(*each) for each in models(NUMBER, "normal forms")])


@pytest.mark.slow
def test_random_models_compiled():
    require_none_wrong(compiled_verdicts(models(NUMBER // 5, "compiled")))


def test_a_difference_is_seen():
    one = np.ones(3, "float32")
    assert Verdict.of_outputs([one], [one], "", exact=False).kind == "right"
    assert Verdict.of_outputs([one], [one * 2], "", exact=False).kind == "wrong"
    assert Verdict.of_outputs([one], [one.astype("float64")], "", exact=False).kind == "wrong"
