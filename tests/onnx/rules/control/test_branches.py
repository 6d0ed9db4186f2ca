"""Branches that are known are taken; of others both are computed, where that is right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.forms import normal_of, operators_of, parsed, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")

CHOICE = """
agraph ({cond} x) => ({kind} y) {{
  {before}
  y = If (c) <
    then_branch = yes () => ({kind} a) {{ {yes} }},
    else_branch = no () => ({kind} b) {{ {no} }}
  >
}}"""


def choice(yes, no, *, before="", cond="bool c, float[2,3]", kind="float[2,3]", opset=21):
    return parsed(CHOICE.format(yes=yes, no=no, before=before, cond=cond, kind=kind), opset=opset)


@pytest.mark.parametrize("opset", [7, 11, 13, 16, 21, 23])
@pytest.mark.parametrize("size", [6, 5])
def test_a_branch_that_is_known_is_the_only_one(size, opset):
    before = f"n = Size (x) six = Constant <value = int64 {{{size}}}> () c = Equal (n, six)"
    model = choice(
        "two = Constant <value = float {2.0}> () a = Mul (x, two)",
        "t = Transpose (x) r = Relu (t) b = Transpose (r)",
        before=before,
        cond="float[2,3]",
        opset=opset,
    )
    made = require_same(model, {"x": X})
    assert operators_of(made) == (["Mul"] if size == 6 else ["Transpose", "Relu", "Transpose"])


def test_a_constant_may_be_all_that_a_branch_is():
    made = "a = Constant <value = float[2,3] {1,2,3,4,5,6}> ()"
    before = "c = Constant <value = bool {1}> ()"
    model = choice(made, "b = Neg (x)", before=before, cond="float[2,3]")
    require_same(model, {"x": X})


def test_branches_lie_within_branches():
    inner = """yes = Constant <value = bool {1}> ()
    a = If (yes) <
      then_branch = g () => (float[2,3] d) { k = Constant <value = float {3.0}> () d = Add (x, k) },
      else_branch = h () => (float[2,3] e) { e = Neg (x) }
    >"""
    model = choice(inner, "b = Abs (x)")
    made = require_same(model, {"c": np.array(True), "x": X})
    assert sorted(operators_of(made)) == ["Abs", "Add", "Where"]
    require_same(model, {"c": np.array(False), "x": X})


@pytest.mark.parametrize("shape", ["bool", "bool[1]"])
@pytest.mark.parametrize("value", [True, False])
def test_both_branches_are_computed_where_the_run_tells_which(value, shape):
    model = choice("a = Exp (x)", "b = Sin (x)", cond=f"{shape} c, float[2,3]")
    given = np.array([value] if "[" in shape else value)
    made = require_same(model, {"c": given, "x": X}, rtol=1e-6)
    assert "If" not in operators_of(made)


def test_branches_of_other_shapes_are_refused():
    model = choice("a = Identity (x)", "b = Transpose (x)", kind="float[M,N]")
    with pytest.raises(ModelError, match="two branches, with results of different shapes"):
        normal_of(model, {"c": np.array(True), "x": X})


def test_branches_that_may_end_the_process_are_refused():
    model = choice("a = Div (x, x)", "b = Neg (x)", cond="bool c, int64[2,3]", kind="int64[2,3]")
    with pytest.raises(ModelError, match="may divide by zero"):
        normal_of(model, {"c": np.array(True), "x": X.astype("int64")})


def test_real_numbers_may_be_divided_by_zero():
    model = choice("a = Div (x, x)", "b = Neg (x)")
    require_same(model, {"c": np.array(False), "x": 0 * X}, by=["runtime"])


def test_large_branches_are_refused():
    more = " ".join(f"a{number + 1} = Neg (a{number})" for number in range(120))
    model = choice(f"a0 = Neg (x) {more} a = Neg (a120)", "b = Neg (x)")
    with pytest.raises(ModelError, match=r"of 123 nodes by a value \('c'\) that only the run"):
        normal_of(model, {"c": np.array(True), "x": X})


def test_what_only_the_other_branch_needs_is_gone():
    before = "c = Constant <value = bool {1}> () z = Exp (x)"
    model = choice("a = Neg (x)", "b = Abs (z)", before=before, cond="float[2,3]")
    assert operators_of(require_same(model, {"x": X})) == ["Neg"]
