"""Sequences and optional values are resolved while nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import normal_of, operators_of, parsed, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")


def graph(nodes, *, kind="float[A,B]", opset=21):
    """A model of nodes that make ``y`` of ``x``."""
    return parsed(f"agraph (float[5,3] x) => ({kind} y) {{ {nodes} }}", opset=opset)


def require_resolved(model, inputs=None, **exact):
    made = require_same(model, inputs or {"x": X}, **exact)
    assert not [name for name in operators_of(made) if "Sequence" in name or "Optional" in name]


def place(number):
    return f"p = Constant <value = int64 {{{number}}}> ()"


THREE = "a = Neg (x) b = Abs (x) s = SequenceConstruct (x, a, b)"


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize("at", [0, 2, -1, -3])
def test_elements(at, opset):
    require_resolved(graph(f"{THREE} {place(at)} y = SequenceAt (s, p)", opset=opset))


@pytest.mark.parametrize("at", [None, 0, 3, -1, -3])
@pytest.mark.parametrize("first", [THREE, "s = SequenceEmpty ()"])
def test_more_elements(first, at):
    if "Empty" in first and at:
        return
    p = "" if at is None else ", p"
    nodes = f"""{first} z = Exp (x) {place(at or 0)} t = SequenceInsert (s, z{p})
      y = ConcatFromSequence <axis = 1> (t)"""
    # The reference takes the end for the begin.
    require_resolved(graph(nodes), by=["runtime"])


@pytest.mark.parametrize("at", [None, 0, 2, -3])
def test_fewer_elements(at):
    p = "" if at is None else ", p"
    nodes = f"""{THREE} {place(at or 0)} t = SequenceErase (s{p})
      y = ConcatFromSequence <axis = -1> (t)"""
    require_resolved(graph(nodes))


def test_no_element_is_left():
    nodes = f"""s = SequenceConstruct (x) {place(0)} t = SequenceErase (s, p) u = SequenceErase (s)
      n = SequenceLength (t) m = SequenceLength (u) y = Add (n, m)"""
    require_resolved(graph(nodes, kind="int64"))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_elements_along_a_new_axis(axis):
    nodes = f"{THREE} y = ConcatFromSequence <axis = {axis}, new_axis = 1> (s)"
    require_resolved(graph(nodes, kind="float[A,B,C]"))


SIZES = "p = Constant <value = int64[2] {K}> ()"


@cases(
    # Parts of one size without keepdims fail in onnxruntime.
    where=lambda split, keepdims, **_: keepdims or split in ("", SIZES),
    axis=[0, 1, -1],
    split=["", "p = Constant <value = int64 {2}> ()", SIZES],
    keepdims=[0, 1],
)
def test_parts_of_a_tensor(keepdims, split, axis):
    split = split.replace("K", "1, 2" if axis else "2, 3")
    p = ", p" if split else ""
    nodes = f"""{split} s = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x{p})
      n = SequenceLength (s) q = Constant <value = int64 {{1}}> () e = SequenceAt (s, q)
      f = Cast <to = 1> (n) y = Mul (e, f)"""
    kind = "float[A]" if not (keepdims or split) else "float[A,B]"
    # onnx's reference drops the axis of parts of given sizes, too.
    by = ["runtime"] if split else ["reference", "runtime"]
    require_resolved(graph(nodes, kind=kind), by=by)


def test_sequences_that_loops_fill():
    nodes = """e = SequenceEmpty () n = Constant <value = int64 {3}> ()
    go = Constant <value = bool {1}> ()
    s = Loop (n, go, e) <
      body = b (int64 i, bool c, seq(float[5,3]) t) => (bool d, seq(float[5,3]) u) {
        d = Identity (c) f = Cast <to = 1> (i) z = Mul (x, f) u = SequenceInsert (t, z)
      }
    >
    y = ConcatFromSequence <axis = 0> (s)"""
    require_resolved(graph(nodes))


def test_maps():
    nodes = """a = Neg (x) s = SequenceConstruct (x, a) t = SequenceConstruct (a, x)
    m, k = SequenceMap (s, t, x) <
      body = b (float[5,3] u, float[5,3] v, float[5,3] w) => (float[5,3] o, float[5,3] r) {
        o = Sub (u, v) r = Mul (u, w)
      }
    >
    l = ConcatFromSequence <axis = 0> (m) n = ConcatFromSequence <axis = 0> (k) y = Add (l, n)"""
    require_resolved(graph(nodes), by=["runtime"])


@pytest.mark.parametrize("opset", [15, 18, 21])
def test_optional_values(opset):
    nodes = """o = Optional (x) h = OptionalHasElement (o) g = OptionalGetElement (o)
    f = Cast <to = 1> (h) y = Add (g, f)"""
    require_resolved(graph(nodes, opset=opset), by=["runtime"])


def test_a_value_that_is_not_there():
    model = graph("o = Optional () h = OptionalHasElement (o) f = Cast <to = 1> (h) y = Add (x, f)")
    kind = model.graph.node[0].attribute.add(name="type", type=13).tp
    kind.tensor_type.elem_type = 1
    kind.tensor_type.shape.dim.add()
    # The reference takes it for one that is there.
    require_resolved(model, by=["runtime"])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (f"{THREE} {place(3)} y = SequenceAt (s, p)", "takes place 3 of a sequence that has 3"),
        (
            f"{THREE} q = ReduceMax <keepdims = 0> (x) r = Cast <to = 7> (q) y = SequenceAt (s, r)",
            r"takes a place in a sequence \('.*'\) that only the run tells",
        ),
        ("s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)", "without elements"),
    ],
)
def test_what_is_not_known_is_refused(nodes, message):
    with pytest.raises(ModelError, match=message):
        normal_of(graph(nodes), {"x": X})
