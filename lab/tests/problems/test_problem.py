"""Recorded problems: what is read, and one clear line for every way a file can be wrong."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.core.graph import Convolution
from tvm_ios.errors import ProblemError
from tvm_ios_lab.places import ROOT
from tvm_ios_lab.problems.problem import parse_problem

GOLDEN = ROOT / "tests" / "golden"
FIRE = json.loads((GOLDEN / "squeezenet_bs1.json").read_text(encoding="utf-8"))
SMALL = {
    "cost": FIRE["cost"],
    "parts": [
        {key: copy.deepcopy(FIRE["parts"][1][key]) for key in ("n", "succ", "prims", "conv")}
    ],
}


def test_golden_files_are_read():
    for path in GOLDEN.glob("*_bs1.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        problem = parse_problem(json.dumps(data))
        assert problem.name == data["model"]
        for part, recorded in zip(data["parts"], problem.parts, strict=True):
            assert len(recorded.graph) == part["n"]
            assert recorded.positions == tuple(range(part["n"]))
            successors = [
                [head for head, op in enumerate(recorded.graph.operators) if i in op.predecessors]
                for i in range(part["n"])
            ]
            assert successors == part["succ"]


def test_a_convolution():
    (part,) = parse_problem(json.dumps(SMALL)).parts
    assert part.graph.operators[1].convolution == Convolution(
        operand='[[["3", 0, 16]]]',
        plain_operand=True,
        input_shape=(16, 55, 55),
        out_channels=64,
        kernel=(3, 3),
        strides=(1, 1),
        padding=(1, 1, 1, 1),
        epilogue="relu",
    )
    assert part.graph.operators[3].convolution is None


@pytest.mark.parametrize("absent", ["null", "missing"])
def test_convolutions_may_be_left_out(absent):
    data = copy.deepcopy(SMALL)
    if absent == "null":
        data["parts"][0]["conv"] = None
    else:
        del data["parts"][0]["conv"]
    (part,) = parse_problem(json.dumps(data)).parts
    assert all(operator.convolution is None for operator in part.graph.operators)


def test_operands_that_are_summed_or_concatenated_are_not_plain():
    data = copy.deepcopy(SMALL)
    for key in ([[["a", 0, 8]], [["b", 0, 8]]], [[["a", 0, 16], ["b", 0, 16]]]):
        data["parts"][0]["conv"][1]["in_key"] = key
        (part,) = parse_problem(json.dumps(data)).parts
        assert not part.graph.operators[1].convolution.plain_operand


def test_operators_in_any_order():
    data = {"cost": SMALL["cost"], "parts": [{"n": 3, "succ": [[], [2], [0]], "prims": [[]] * 3}]}
    (part,) = parse_problem(json.dumps(data)).parts
    assert part.positions == (1, 2, 0)
    assert [op.predecessors for op in part.graph.operators] == [(), (0,), (1,)]


def _set(path, value):
    def change(data):
        *front, last = path
        for key in front:
            data = data[key]
        if value is _set:
            del data[last]
        else:
            data[last] = value

    return change


PART = ("parts", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("cost",), _set, "the problem lacks the field 'cost'"),
        (("parts",), _set, "the problem lacks the field 'parts'"),
        (("parts",), {}, r"parts is \{\}; expected a list"),
        (("cost",), 7, "cost is 7; expected an object"),
        (("cost", "PEAK"), _set, "cost lacks the field 'PEAK'"),
        (("cost", "PEAK"), 0, "cost.PEAK is 0; expected a whole number from 1"),
        (("cost", "SAT"), 1.5, "cost.SAT is 1.5"),
        (("cost", "HOST"), True, "cost.HOST is True"),
        (("cost", "LAUNCH"), "5", "cost.LAUNCH is '5'"),
        (("cost", "BARRIER"), -1, "cost.BARRIER is -1"),
        (PART, None, r"parts\[0\] is None; expected an object"),
        ((*PART, "n"), _set, r"parts\[0\] lacks the field 'n'"),
        ((*PART, "n"), 5, r"parts\[0\].succ has 6 entries but parts\[0\].n is 5"),
        ((*PART, "n"), 10**12, r"parts\[0\].succ has 6 entries but parts\[0\].n is 1000000000000"),
        ((*PART, "n"), 10**30, r"parts\[0\].n is 10+; expected a whole number"),
        ((*PART, "n"), -6, r"parts\[0\].n is -6"),
        ((*PART, "n"), "6", r"parts\[0\].n is '6'"),
        ((*PART, "succ"), _set, r"parts\[0\] lacks the field 'succ'"),
        ((*PART, "succ", 0), 1, r"parts\[0\].succ\[0\] is 1; expected a list"),
        ((*PART, "succ", 0), [6], r"parts\[0\].succ\[0\]\[0\] is 6; .* from 0 to 5"),
        ((*PART, "succ", 0), [-1], r"parts\[0\].succ\[0\]\[0\] is -1"),
        ((*PART, "succ", 0), [True], r"parts\[0\].succ\[0\]\[0\] is True"),
        ((*PART, "succ", 5), [0], r"parts\[0\].succ has a cycle through or before operator 0"),
        ((*PART, "succ", 2), [2], r"parts\[0\].succ has a cycle"),
        ((*PART, "prims"), _set, r"parts\[0\] lacks the field 'prims'"),
        ((*PART, "prims"), [], r"parts\[0\].prims has 0 entries"),
        ((*PART, "prims", 1), [[1, 2]], r"parts\[0\].prims\[1\]\[0\] is \[1, 2\]; expected 3"),
        ((*PART, "prims", 1), [[-1, 2, 3]], r"parts\[0\].prims\[1\]\[0\]\[0\] is -1"),
        ((*PART, "prims", 1), [[1, 0, 3]], r"parts\[0\].prims\[1\]\[0\]\[1\] is 0"),
        ((*PART, "prims", 1), [[1, 2, None]], r"parts\[0\].prims\[1\]\[0\]\[2\] is None"),
        ((*PART, "prims", 1), [], r"parts\[0\].prims\[1\] is \[\]; a convolution needs"),
        ((*PART, "conv"), [], r"parts\[0\].conv has 0 entries"),
        ((*PART, "conv", 1), 3, r"parts\[0\].conv\[1\] is 3; expected an object"),
        ((*PART, "conv", 1, "kernel"), [3], r"parts\[0\].conv\[1\].kernel is \[3\]; expected 2"),
        ((*PART, "conv", 1, "kernel"), [3, 0], r"parts\[0\].conv\[1\].kernel\[1\] is 0"),
        ((*PART, "conv", 1, "kernel"), [99, 3], "does not fit"),
        ((*PART, "conv", 1, "stride"), [0, 1], r"conv\[1\].stride\[0\] is 0"),
        ((*PART, "conv", 1, "pad"), [-1, 1], r"conv\[1\].pad\[0\] is -1"),
        ((*PART, "conv", 1, "in_key"), _set, r"conv\[1\] lacks the field 'in_key'"),
        ((*PART, "conv", 1, "in_key"), "x", r"conv\[1\].in_key is 'x'; expected a list"),
        ((*PART, "conv", 1, "in_key"), [3], r"conv\[1\].in_key\[0\] is 3; expected a list"),
        ((*PART, "conv", 1, "in_shape"), [16, 55], r"in_shape is \[16, 55\]; expected 3"),
        ((*PART, "conv", 1, "groups"), 3, "groups is 3; it must divide 16"),
        ((*PART, "conv", 1, "out"), 0, r"conv\[1\].out is 0"),
        ((*PART, "conv", 1, "act"), 1, r"conv\[1\].act is 1; expected text"),
    ],
)
def test_what_is_wrong_is_named(path, value, message):
    data = copy.deepcopy(SMALL)
    _set(path, value)(data)
    with pytest.raises(ProblemError, match=message) as caught:
        parse_problem(json.dumps(data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "nope", "[1, 2", '"x" 1', "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "\0"]
)
def test_not_json(text):
    with pytest.raises(ProblemError, match="the problem is no JSON"):
        parse_problem(text)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "true", "NaN"])
def test_not_an_object(text):
    with pytest.raises(ProblemError, match="expected an object with 'cost', 'parts'"):
        parse_problem(text)


def _places(data, path=()):
    yield path
    entries = enumerate(data) if isinstance(data, list) else ()
    for key, value in data.items() if isinstance(data, dict) else entries:
        yield from _places(value, (*path, key))


PLACES = [path for path in _places(SMALL) if path]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@pytest.mark.slow(1)
@settings(max_examples=300)
@given(st.sampled_from(PLACES), json_values, st.booleans())
def test_any_one_change_is_read_or_refused_in_one_line(path, value, remove):
    data = copy.deepcopy(SMALL)
    *front, last = path
    target = data
    for key in front:
        target = target[key]
    if remove:
        del target[last]
    else:
        target[last] = value
    message = ""
    try:
        parse_problem(json.dumps(data))
    except ProblemError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 400
