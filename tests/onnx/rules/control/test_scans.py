"""Scans become their steps, along every axis and in both directions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import normal_of, operators_of, parsed, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
START = np.random.default_rng(1).standard_normal((2, 4)).astype("float32")


def scan(attributes, *, shape="[2,3,4]", slices="[2,4]", opset=21):
    """A scan of ``x`` and of its negative, with a state, that makes two rows."""
    return parsed(
        f"""agraph (float[2,4] s, float{shape} x)
          => (float[2,4] last, float[A,B,C] sums, float[D,E,F] q) {{
          y = Neg (x)
          last, sums, q = Scan <
            num_scan_inputs = 2, {attributes},
            body = b (float[2,4] v, float{slices} one, float{slices} other) =>
              (float[2,4] w, float[G,H] sum, float[I,J] product) {{
              w = Add (v, one) sum = Sub (w, other) product = Mul (one, s)
            }}
          > (s, x, y)
        }}""",
        opset=opset,
    )


@cases(
    where=lambda axes, opset, **_: opset > 9 or min(axes) >= 0,
    opset=[9, 11, 16, 21, 23],
    into=[[0, 0], [1, 0], [1, 1]],
    out=[[0, 0], [0, 1]],
    axes=[[0, 0], [1, 2], [-1, 1]],
)
def test_axes_and_directions(axes, out, into, opset):
    model = scan(
        f"scan_input_axes = [1, 1], scan_input_directions = {into},"
        f"scan_output_axes = {axes}, scan_output_directions = {out}",
        opset=opset,
    )
    # The reference knows no other axis than the first.
    made = require_same(model, {"s": START, "x": X}, by=["runtime"])
    assert "Scan" not in operators_of(made)


@pytest.mark.parametrize("opset", [9, 21])
def test_scans_along_the_first_axis(opset):
    x = np.moveaxis(X, 1, 0).copy()
    model = scan("scan_input_axes = [0, 0]", shape="[3,2,4]", opset=opset)
    require_same(model, {"s": START, "x": x}, by=["runtime"])


BATCH = """agraph (float[2,4] s, float[2,3,4] x) => (float[A,B] last, float[C,D,E] sums) {{
  {before}
  last, sums = Scan <
    num_scan_inputs = 1, directions = [{back}],
    body = b (float[4] v, float[4] one) => (float[4] w, float[4] sum) {{
      w = Add (v, one) sum = Mul (w, one)
    }}
  > ({lengths}, s, x)
}}"""


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("lengths", ["", "[3, 3]"])
def test_scans_of_batches(lengths, back):
    told = {"before": "", "lengths": "", "back": back}
    if lengths:
        told["before"] = "n = Constant <value = int64[2] {3, 3}> ()"
        told["lengths"] = "n"
    require_same(parsed(BATCH.format(**told), opset=8), {"s": START, "x": X}, by=["runtime"])


def test_scans_of_shorter_sequences_are_refused():
    before = "n = Constant <value = int64[2] {3, 2}> ()"
    model = parsed(BATCH.format(before=before, lengths="n", back=0), opset=8)
    with pytest.raises(ModelError, match=r"has sequence_lens other than 3; give sequences of one"):
        normal_of(model, {"s": START, "x": X})
