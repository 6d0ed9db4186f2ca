"""Nodes of ONNX that cannot be compiled are run by onnxruntime, or refused with the model."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from tvm import relay

import tvm_ios
from tests.onnx.cut_models import ENDS, X, end, inputs_of
from tests.onnx.forms import outputs_of
from tvm_ios import BuildOptions, SimpleTVM, TuneOptions
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.errors import ExecutionError, HostError, ModelError, OptionError
from tvm_ios.runtime.artifact.footer import read_footer, read_story
from tvm_ios.runtime.base.module_attributes import rest_of
from tvm_ios.tuning.device_options import DeviceOptions

TEXT = (
    f"1 of 3 nodes are run by onnxruntime {onnxruntime.__version__}, since node 'places' (NonZero) "
    "gives a result whose shape only values tell, and compiled code has static shapes"
)
TARGET = "llvm -mcpu=core-avx2 -opt-level=0"  # LLVM need not optimise what runs a few times


def compiled(model):
    return tvm_ios.compile_schedule(*tvm_ios.from_onnx(model, rest="onnxruntime"), TARGET, lanes=1)


def outputs(executor, **inputs):
    executor.run(**inputs)
    return [executor.get_output(n).numpy() for n in range(executor.get_num_outputs())]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A compiled model with a rest, and its file."""
    model = compiled(ENDS["places"])
    path = tmp_path_factory.mktemp("rest") / "places.so"
    model.export_library(path)
    return model, path


@pytest.mark.parametrize("kind", ENDS)
def test_outputs_are_those_of_the_whole_model(kind):
    model, inputs = ENDS[kind], inputs_of(ENDS[kind])
    with compiled(model).executor() as executor:
        assert executor.input_names == tuple(inputs)
        found = outputs(executor, **inputs)
    for one, wanted in zip(found, outputs_of(model, inputs, by="runtime"), strict=True):
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


def test_weights_in_other_files_go_with_the_rest(tmp_path):
    model, path = ENDS["an input and a weight"], tmp_path / "net.onnx"
    named = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(named, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    mod, _ = tvm_ios.from_onnx(path, rest="onnxruntime")
    for name in ("net.onnx", "w.bin"):
        (tmp_path / name).unlink()
    with tvm_ios.compile_schedule(mod, target=TARGET, lanes=1).executor() as executor:
        (found,) = outputs(executor, x=X)
    np.testing.assert_allclose(found, *outputs_of(model, {"x": X}, by="runtime"), rtol=1e-5)


def test_outputs_have_the_shape_of_each_run(places):
    with places[0].executor() as executor:
        with pytest.raises(ExecutionError, match="no shape before the first run"):
            executor.get_output(0)
        assert outputs(executor, x=X)[0].shape[1] > 0
        assert outputs(executor, x=np.zeros_like(X))[0].shape == (2, 0)
        assert executor.time_ns(2) > 0
        assert executor.trace(1)
        assert len(executor.benchmark(repeat=2, number=1, end_to_end=True).results) == 2
        with pytest.raises(ExecutionError, match="no output 1; there are 1"):
            executor.get_output(1)
        with pytest.raises(ExecutionError, match="use get_output"):
            executor.set_output_zero_copy(0, np.zeros((2, 3), "int64"))


@pytest.mark.slow(5)
def test_files_have_the_rest(places, run_python):
    model, path = places
    assert read_footer(path).rest == model.rest
    assert read_story(path).rest == f"{TEXT}; times are of the other nodes"
    code = (
        "import sys, numpy as np, tvm_ios; "
        f"executor = tvm_ios.load({str(path)!r}); executor.run(x=np.ones((4, 6), 'float32')); "
        "print(executor.get_output(0).numpy().tolist(), 'onnx' in sys.modules)"
    )
    (wanted,) = outputs_of(ENDS["places"], {"x": np.ones((4, 6), "float32")}, by="runtime")
    assert run_python("-c", code).stdout.splitlines()[-1] == f"{wanted.tolist()} False"


def test_a_model_without_such_nodes_has_no_rest():
    mod, _ = tvm_ios.from_onnx(end([("Relu", "m", "y")], ["y"]), rest="onnxruntime")
    assert rest_of(mod) is None


def test_a_node_that_is_not_needed_is_no_reason():
    mod, _ = tvm_ios.from_onnx(end([("NonZero", "m", "unread"), ("Relu", "m", "y")], ["y"]))
    assert rest_of(mod) is None


def test_the_module_of_a_front_is_one_of_relay():
    mod, _ = tvm_ios.from_onnx(ENDS["places"], rest="onnxruntime")
    found = relay.create_executor("graph", mod, target=TARGET).evaluate()(X)
    assert tuple(found.shape) == (4, 8)


@pytest.mark.parametrize("kind", ["places", "what a rule refuses"])
def test_the_model_is_refused_by_choice(kind):
    with pytest.raises(ModelError, match=r"^the model: node 'pl?a.*; or have") as caught:
        tvm_ios.from_onnx(ENDS[kind])
    assert str(caught.value).endswith(
        "; or have onnxruntime run it and all behind it: --rest onnxruntime (in Python: "
        'rest="onnxruntime")'
    )
    with pytest.raises(OptionError, match="rest is 'ort'; give 'onnxruntime' or 'refuse'"):
        tvm_ios.from_onnx(ENDS[kind], rest="ort")


def test_options_refuse_it_too():
    refuse = TuneOptions(build=BuildOptions(rest="refuse"))
    with pytest.raises(ModelError, match="have onnxruntime run it"):
        SimpleTVM(options=refuse).from_model(ENDS["places"])
    assert SimpleTVM().from_model(ENDS["places"]) is not None
    mod, _ = tvm_ios.from_onnx(ENDS["places"], rest="onnxruntime")
    with pytest.raises(OptionError, match="but rest is 'refuse'"):
        tvm_ios.compile_schedule(mod, options=refuse)
    with pytest.raises(OptionError, match="rest is 'ort'; give"):
        BuildOptions(rest="ort")


def test_devices_over_rpc_are_refused():
    mod, _ = tvm_ios.from_onnx(ENDS["places"], rest="onnxruntime")
    remote = TuneOptions(device=DeviceOptions(rpc_tracker="127.0.0.1:9190", rpc_key="board"))
    with pytest.raises(OptionError, match="the model: 1 of 3 nodes .*not run on devices over RPC"):
        tvm_ios.tune(mod, target="llvm", options=remote)


def test_a_model_that_would_be_all_rest_is_refused():
    with pytest.raises(ModelError, match=r"node 'places' \(NonZero\) gives .*before it$"):
        tvm_ios.from_onnx(end([("NonZero", "x", "places")], ["places"]), rest="onnxruntime")


def test_outputs_that_are_no_tensors_are_refused():
    model = end([("SequenceConstruct", "m m", "y")], ["y"])
    with pytest.raises(ModelError, match=r"its output 'y' is a seq\(tensor\(float\)\)"):
        tvm_ios.from_onnx(model, rest="onnxruntime")


@pytest.fixture
def no_onnxruntime(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


@pytest.mark.parametrize("kind", ["places", "what a rule refuses"])
def test_without_onnxruntime_a_refusal_names_it(kind, no_onnxruntime):
    with pytest.raises(ModelError, match=r"node .*; or run: pip install onnxruntime, and onnx"):
        tvm_ios.from_onnx(ENDS[kind], rest="onnxruntime")


def test_without_onnxruntime_a_file_says_what_it_needs(places, no_onnxruntime):
    with pytest.raises(HostError, match=r"has nodes that onnxruntime runs.* pip install onnxrun"):
        tvm_ios.load(places[1])
    with pytest.raises(HostError, match="pip install onnxruntime"):
        places[0].executor()


def test_what_rules_refuse_is_told_before_tvm_is_loaded():
    with pytest.raises(ModelError, match=r"node 'padded' \(Pad\) takes"):
        OnnxFile.open(ENDS["what a rule refuses"])
