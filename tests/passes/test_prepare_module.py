from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tvm_ios.core.conversion import Conversion
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.passes.partition_stages import PartitionStages
from tvm_ios.passes.prepare_module import PrepareModule
from tvm_ios.relay.extract import extract, is_prepared
from tvm_ios.search.baselines import greedy_schedule


def test_a_module_is_prepared_in_a_sequence(case):
    module, params = case.network()
    sequence = tvm.transform.Sequential([PrepareModule(target=case.target, params=params)])
    with tvm.transform.PassContext(opt_level=3):
        prepared = sequence(module)
    assert is_prepared(prepared)
    assert len(prepared["main"].params) == 1


def test_a_prepared_module_is_returned_as_it_is(case):
    module, params = case.network()
    prepare = PrepareModule(target=case.target, params=params)
    once = prepare(module)
    assert prepare(once).same_as(once)


def test_a_partitioned_module_is_returned_as_it_is(case):
    module, params = case.network()
    prepare = PrepareModule(target=case.target, params=params)
    prepared = prepare(module)
    partition = PartitionStages(schedule=greedy_schedule(extract(prepared).graph))
    partitioned = partition(prepared)
    assert prepare(partitioned).same_as(partitioned)
    assert partition(partitioned).same_as(partitioned)


def test_control_flow_is_returned_as_it_is(case):
    data = relay.var("data", shape=(3,))
    condition = relay.less(relay.sum(data), relay.const(1.0))
    body = relay.If(condition, relay.tanh(data), relay.exp(data))
    module = tvm.IRModule.from_expr(relay.Function([data], body))
    assert PrepareModule(target=case.target)(module).same_as(module)


def test_bad_input_is_one_of_our_errors(case):
    with pytest.raises(ModelError, match="no function 'main'"):
        PrepareModule(target=case.target)(tvm.IRModule())
    with pytest.raises(ModelError, match="does not have target 'foo'"):
        PrepareModule(target="foo")(case.network()[0])


def test_it_has_a_name_and_a_level():
    info = PrepareModule(target="llvm").info
    assert (info.name, info.opt_level) == ("tvm_ios.PrepareModule", 0)


def test_it_can_be_disabled(case):
    module, params = case.network()
    sequence = tvm.transform.Sequential([PrepareModule(target=case.target, params=params)])
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["tvm_ios.PrepareModule"]):
        assert not is_prepared(sequence(module))


def test_layout_and_types_are_options(case):
    module, params = case.network()
    half = Conversion(desired_layout="NHWC", mixed_precision=True)
    prepared = PrepareModule(target=case.target, params=params, conversion=half)(module)
    text = prepared.astext(show_meta_data=False)
    assert 'data_layout="NHWC"' in text
    assert "float16" in text
    with pytest.raises(OptionError, match="conversion is 'NHWC'; give a Conversion"):
        PrepareModule(target=case.target, conversion="NHWC")
