"""Loops of known length become their steps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.forms import normal_of, operators_of, parsed, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")


def loop(body, *, outputs="last", before="", trips="n", cond="go", given="x", steps=4, opset=21):
    """A loop whose body takes ``i``, ``c`` and ``s``, and gives ``d``, ``t`` and more."""
    names = ", ".join(each.split()[-1] for each in outputs.split(", "))
    return parsed(
        f"""agraph (float[2,3] x) => ({outputs.replace("last", "float[K,L] last")}) {{
          n = Constant <value = int64 {{{steps}}}> ()
          go = Constant <value = bool {{1}}> ()
          {before}
          {names} = Loop ({trips}, {cond}, {given}) <
            body = b (int64 i, bool c, float[A,B] s) => ({body}
          >
        }}""",
        opset=opset,
    )


PLAIN = """bool d, float[A,B] t) {
  d = Identity (c) f = Cast <to = 1> (i) u = Add (s, f) t = Mul (u, x)
}"""


@pytest.mark.parametrize("opset", [11, 13, 23])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_as_many_steps_as_are_said(steps, opset):
    made = require_same(loop(PLAIN, steps=steps, opset=opset), {"x": X}, rtol=1e-6)
    assert operators_of(made).count("Mul") == steps
    assert "Loop" not in operators_of(made)


ROWS = """bool d, float[A,B] t, float[2,3] r, float q) {
  d = Identity (c) k = Constant <value = float {0.5}> () t = Mul (s, k) r = Sub (s, x)
  q = ReduceMax <keepdims = 0> (s)
}"""


def test_what_steps_make_is_stacked():
    model = loop(ROWS, outputs="last, float[S,2,3] rows, float[S] most")
    # The reference joins rows where it has to stack them.
    require_same(model, {"x": X}, by=["runtime"])


def test_a_loop_of_no_step_makes_rows_of_none():
    model = loop(ROWS, outputs="last, float[S,2,3] rows, float[S] most", steps=0)
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_value = 0
    made = normal_of(model, {"x": X})
    assert [d.dim_value for d in made.graph.output[1].type.tensor_type.shape.dim] == [0, 2, 3]


WHILE = """bool d, float[A,B] t) {
  three = Constant <value = int64 {3}> () d = Less (i, three) t = Add (s, x)
}"""


@pytest.mark.parametrize("trips", ["n", ""])
@pytest.mark.parametrize("steps", [2, 9, 2**63 - 1])
def test_conditions_are_known_step_by_step(steps, trips):
    model = loop(WHILE, trips=trips, steps=steps)
    # The reference takes no loop without a number of steps.
    made = require_same(model, {"x": X}, by=["runtime"])
    assert operators_of(made) == ["Add"] * (2 if steps == 2 and trips else 4)


def test_a_loop_may_end_before_it_begins():
    no = "no = Constant <value = bool {0}> ()"
    require_same(loop(PLAIN, before=no, cond="no"), {"x": X})


def test_a_condition_may_be_left_out():
    # The reference takes no step then.
    made = require_same(loop(PLAIN, cond=""), {"x": X}, by=["runtime"], rtol=1e-6)
    assert operators_of(made).count("Mul") == 4


GROWING = """bool d, float[A,B] t) { d = Identity (c) t = Concat <axis = 0> (s, x) }"""


def test_what_is_carried_may_grow():
    require_same(loop(GROWING), {"x": X})


NESTED = """bool d, float[A,B] t) {
  d = Identity (c)
  two = Constant <value = int64 {2}> ()
  zero = Constant <value = int64 {0}> ()
  first = Equal (i, zero)
  t = Loop (two, c, s) <
    body = inner (int64 j, bool e, float[A,B] v) => (bool f, float[A,B] w) {
      f = Identity (e)
      w = If (first) <
        then_branch = yes () => (float[A,B] a) { a = Sub (v, s) },
        else_branch = no () => (float[A,B] b) { b = Mul (v, x) }
      >
    }
  >
}"""


def test_loops_and_branches_lie_within_loops():
    made = require_same(loop(NESTED, steps=3), {"x": X})
    assert operators_of(made) == ["Sub"] * 2 + ["Mul"] * 4


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"trips": "m", "before": "q = ReduceMax <keepdims = 0> (x) m = Cast <to = 7> (q)"},
            r"takes a number of steps \('.*'\) that only the run tells",
        ),
        (
            {"cond": "g", "before": "q = ReduceMax <keepdims = 0> (x) g = Cast <to = 9> (q)"},
            r"goes on by a condition \('.*'\) that only the run tells; give a number of steps",
        ),
        ({"steps": 9999}, "takes 9999 steps, and is unrolled up to"),
    ],
)
def test_loops_of_unknown_length_are_refused(told, message):
    with pytest.raises(ModelError, match=message):
        normal_of(loop(PLAIN, **told), {"x": X})


def test_an_endless_loop_is_refused():
    with pytest.raises(ModelError, match="steps, and is unrolled up to"):
        normal_of(loop(PLAIN, trips=""), {"x": X})


def test_values_of_outside_are_seen_as_they_are_now():
    """A loop reads a value whose node another rule has replaced meanwhile."""
    before = "z = Dropout (x) y = Identity (z)"
    body = "bool d, float[A,B] t) { d = Identity (c) t = Add (s, y) }"
    made = require_same(loop(body, before=before, steps=2), {"x": X})
    assert operators_of(made) == ["Add", "Add"]
