from __future__ import annotations

import logging
import os

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.ir.transform import PassContext

from tvm_ios.onnx.rest import Rest
from tvm_ios.relay.context import (
    offline_tophub,
    pass_context,
    reason_of,
    tvm_pipeline,
    valued_model_digest,
)
from tvm_ios.runtime.base.module_attributes import with_rest


def test_without_a_context_the_level_is_ours():
    with pass_context(opt_level=3):
        assert PassContext.current().opt_level == 3
    assert PassContext.current().opt_level == 2


@pytest.mark.parametrize("level", [0, 2, 3])
def test_an_entered_context_is_taken_as_it_is(level):
    with PassContext(opt_level=level) as caller:
        with pass_context(opt_level=1):
            assert PassContext.current().same_as(caller)
        assert PassContext.current().same_as(caller)
    assert not PassContext.current().same_as(caller)


def test_disabling_a_pass_keeps_everything_else():
    config = {"relay.FuseOps.max_depth": 5}
    with (
        PassContext(
            opt_level=1, required_pass=["FoldScaleAxis"], disabled_pass=["FastMath"], config=config
        ),
        pass_context(disabled=["SimplifyExpr", "FoldScaleAxis"]),
    ):
        current = PassContext.current()
        assert current.opt_level == 1
        assert list(current.required_pass) == ["FoldScaleAxis"]
        assert list(current.disabled_pass) == ["FastMath", "SimplifyExpr"]
        assert int(current.config["relay.FuseOps.max_depth"]) == 5


@pytest.mark.parametrize("entered", [False, True])
def test_warnings_of_tvm_are_reasons_of_ours_inside(entered, caplog):
    caplog.set_level(logging.INFO, "tvm_ios")
    outer = PassContext(opt_level=3) if entered else pass_context()
    with outer, pass_context():
        logging.getLogger("autotvm").warning("%d operators have not been tuned", 2)
        logging.getLogger("strategy").error("a fault")
    logging.getLogger("autotvm").warning("from somebody else")
    assert [(record.name, record.levelname, record.message) for record in caplog.records] == [
        ("tvm_ios.relay.context", "INFO", "TVM: 2 operators have not been tuned"),
        ("strategy", "ERROR", "a fault"),
        ("autotvm", "WARNING", "from somebody else"),
    ]


def test_tuning_logs_are_not_downloaded(monkeypatch):
    monkeypatch.delenv("TOPHUB_LOCATION", raising=False)
    with offline_tophub():
        assert os.environ["TOPHUB_LOCATION"] == "NONE"
    assert "TOPHUB_LOCATION" not in os.environ


def test_a_place_for_tuning_logs_is_kept(monkeypatch):
    monkeypatch.setenv("TOPHUB_LOCATION", "/somewhere")
    with tvm_pipeline():
        assert os.environ["TOPHUB_LOCATION"] == "/somewhere"


def test_the_reason_of_a_long_error_is_one_line():
    with pytest.raises(tvm.TVMError) as caught:
        tvm.relay.fromtext("def @main( {")
    assert "\n" not in reason_of(caught.value)
    trace = "Traceback\n  1: f\nInternalError: Check failed: no luck :\nfn (%x) {\n}"
    assert reason_of(ValueError(trace)) == "InternalError: Check failed: no luck :"
    assert len(reason_of(ValueError("x" * 1000))) < 400
    assert reason_of(ValueError()) == "ValueError"


def network(constant=1.0, name="x", relu=True):
    x = relay.var(name, shape=(2, 3))
    body = x + relay.const(np.full((2, 3), constant, "float32")) + relay.var("w", shape=(2, 3))
    body = relay.nn.relu(body) if relu else body
    return tvm.IRModule.from_expr(body)


def weights(value=0.5):
    array = np.zeros((2, 3), "float32")
    array[1, 2] = value
    return {"w": tvm.nd.array(array)}


def test_equal_models_have_equal_digests():
    arrays = {name: value.numpy() for name, value in weights().items()}
    assert valued_model_digest(network(), weights()) == valued_model_digest(network(), arrays)


@pytest.mark.parametrize(
    ("mod", "params"),
    [
        pytest.param(network(constant=1.5), weights(), id="a constant"),
        pytest.param(network(), weights(0.25), id="one value of a parameter"),
        pytest.param(network(name="image"), weights(), id="the name of an input"),
        pytest.param(network(relu=False), weights(), id="structure"),
        pytest.param(network(), {}, id="a weight less"),
        pytest.param(network(), None, id="weights as inputs"),
        pytest.param(
            with_rest(network(), Rest(name="n", text="t", fronts=(), outputs=(), model=b"m")),
            weights(),
            id="a rest",
        ),
    ],
)
def test_others_have_others(mod, params):
    assert valued_model_digest(mod, params) != valued_model_digest(network(), weights())


def test_scalars_and_types_count():
    arrays = [np.float32(1), np.float32(2), np.int32(1), np.zeros((0, 2), "bool")]
    digests = {valued_model_digest(network(), {"w": array}) for array in arrays}
    assert len(digests) == len(arrays)
