"""Inputs that a call checks errors on: named, shaped and typed as the model's, or refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm

from tvm_ios.driver.given_inputs import arrays_of, digest_of_inputs, require_inputs
from tvm_ios.errors import OptionError

DATA = np.zeros((1, 16, 12, 12), "float32")


def test_arrays_of_any_kind_are_taken():
    assert arrays_of(None) is None
    found = arrays_of({"data": tvm.nd.array(DATA), "other": [1, 2]})
    assert found is not None
    assert {type(each) for each in found.values()} == {np.ndarray}
    with pytest.raises(OptionError, match="inputs is 3; give arrays by name"):
        arrays_of(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: {}, "input 'data' is missing"),
        (lambda data: {"x": data}, "there is no input 'x'"),
        (lambda data: {"data": data, "a": data}, "there is no input 'a'"),
        (lambda data: {"data": data[..., :3]}, "input 'data' has the shape"),
        (lambda data: {"data": data.astype("float64")}, "input 'data' is float64"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(branching, change, message):
    mod, params = branching
    shape = [int(extent) for extent in mod["main"].params[0].type_annotation.shape]
    data = np.zeros(shape, "float32")
    require_inputs({"data": data}, mod, params)
    takes = re.escape(f"the model takes data: float32 {shape}")
    with pytest.raises(OptionError, match=f"{message}.*{takes}"):
        require_inputs(change(data), mod, params)


def test_another_value_is_another_digest():
    digests = {
        digest_of_inputs(each)
        for each in (
            None,
            {"data": DATA},
            {"data": DATA + 1},
            {"data": DATA[0]},
            {"data": DATA.astype("int32")},
            {"other": DATA},
        )
    }
    assert len(digests) == 6
    assert digest_of_inputs({"a": DATA, "b": DATA[0]}) == digest_of_inputs(
        {"b": DATA[0], "a": DATA}
    )
