from __future__ import annotations

import pytest
import tvm
from tvm import relay, tir
from tvm.ir.transform import PassContext

from tvm_ios.relay.context import ANSOR_SWITCH
from tvm_ios.relay.transforms.layout_text import without_layout_text
from tvm_ios.relay.transforms.pipeline import optimize

INDEX = tir.Var("c", "int32")
TERMS = (INDEX, INDEX + 1, INDEX - 1, INDEX * 16, INDEX // 16, INDEX % 16)


def texts():
    return [str(term) for term in TERMS]


def test_index_expressions_print_as_nothing_inside_and_as_ever_after():
    before = texts()
    assert before == ["c", "c + 1", "c - 1", "c * 16", "c // 16", "c % 16"]
    with without_layout_text():
        assert texts() == [""] * len(TERMS)
        with without_layout_text():
            assert texts() == [""] * len(TERMS)
        assert texts() == [""] * len(TERMS)
        assert str(tir.IntImm("int32", 16)) == "16"
    assert texts() == before


def test_they_are_printed_again_after_an_error():
    with pytest.raises(KeyError), without_layout_text():
        raise KeyError
    assert str(INDEX + 1) == "c + 1"


def test_errors_of_types_say_the_same():
    data, weight = relay.var("data", shape=(1, 16, 8, 8)), relay.var("w", shape=(16, 4, 3, 3))
    function = relay.Function([data, weight], relay.nn.conv2d(data, weight))
    said = []
    for _ in range(2):
        with pytest.raises(tvm.TVMError) as caught:
            relay.transform.InferType()(tvm.IRModule.from_expr(function))
        said.append(str(caught.value))
    with without_layout_text(), pytest.raises(tvm.TVMError) as caught:
        relay.transform.InferType()(tvm.IRModule.from_expr(function))
    assert said[0] == said[1] == str(caught.value)


@pytest.mark.slow(1)
@pytest.mark.parametrize("ansor", [pytest.param(False, marks=pytest.mark.slow), True])
def test_keys_of_ansor_keep_their_text(nets, ansor):
    seen = []

    @tvm.ir.instrument.pass_instrument
    class Reader:
        def run_before_pass(self, _module, _info):
            seen.append(str(INDEX + 1))

    module, params = nets.branching()
    target = tvm.target.Target(nets.target)
    with PassContext(opt_level=3, instruments=[Reader()], config={ANSOR_SWITCH: ansor}):
        optimize(module, params, target, opt_level=3)
    assert set(seen) == {"c + 1" if ansor else ""}
