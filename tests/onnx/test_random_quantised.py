"""Random quantised graphs compute what onnxruntime computes, within a quantum.

``TVM_IOS_RANDOM_QUANTISED`` is their number, of which tests have one in each form.
``TVM_IOS_RANDOM_SEED`` draws others, ``TVM_IOS_RANDOM_JOBS`` judges several at a time, and
``TVM_IOS_RANDOM_RESULT`` names a file for results.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from functools import partial
from pathlib import Path

import pytest

from tests.onnx.random_models.quantised_judging import judged, result_of
from tvm_ios.host.onednn_files import find_onednn

NUMBER = int(os.environ.get("TVM_IOS_RANDOM_QUANTISED", "3"))
SEED = int(os.environ.get("TVM_IOS_RANDOM_SEED", "6"))
JOBS = int(os.environ.get("TVM_IOS_RANDOM_JOBS", "1"))
RESULT = os.environ.get("TVM_IOS_RANDOM_RESULT")
COMMAND = (
    f"TVM_IOS_RANDOM_QUANTISED={NUMBER} TVM_IOS_RANDOM_SEED={SEED} TVM_IOS_RANDOM_JOBS={JOBS} "
    f"TVM_IOS_RANDOM_RESULT={RESULT} python -m pytest -n 0 tests/onnx/test_random_quantised.py"
)


@pytest.mark.slow(8)
def test_random_quantised_graphs():
    if find_onednn().version is None:
        pytest.skip(f"no oneDNN here: {find_onednn().reason}")
    judge = partial(judged, SEED)
    if JOBS == 1:
        made = [judge(number) for number in range(NUMBER)]
    else:
        with multiprocessing.get_context("spawn").Pool(JOBS) as pool:
            made = pool.map(judge, range(NUMBER), chunksize=1)
    found = [each for each in made if each is not None]
    if RESULT:
        result = result_of(found, seed=SEED, command=COMMAND)
        Path(RESULT).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    wrong = [told for each in found for told in each.wrong]
    assert not wrong, "\n".join(wrong)
    assert not [each.refused for each in found if each.refused]
