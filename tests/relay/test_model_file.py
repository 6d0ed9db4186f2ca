"""Models are read from files as TVM writes them; what is unfit is named, in one line."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvm_ios.errors import ModelError
from tvm_ios.relay.model_file import read_model


def assert_same_params(found, params):
    assert sorted(found) == sorted(params)
    for name, array in params.items():
        np.testing.assert_array_equal(found[name].numpy(), array.numpy())


def test_json_and_parameters_as_tvm_writes_them(branching, tmp_path):
    mod, params = branching
    (tmp_path / "net.json").write_text(tvm.ir.save_json(mod))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(params))
    found, found_params = read_model(tmp_path / "net.json", tmp_path / "net.params")
    tvm.ir.assert_structural_equal(found, mod)
    assert_same_params(found_params, params)


@pytest.mark.parametrize("suffix", [".relay", ".txt", ".TXT"])
def test_text_and_numpy_parameters(suffix, branching, tmp_path):
    mod, params = branching
    path = tmp_path / f"net{suffix}"
    path.write_text(mod.astext())
    np.savez(tmp_path / "net.npz", **{name: array.numpy() for name, array in params.items()})
    found, found_params = read_model(path, tmp_path / "net.npz")
    tvm.ir.assert_structural_equal(found, mod)
    assert_same_params(found_params, params)


def test_constants_need_no_parameters(branching, tmp_path):
    mod, params = branching
    bound = tvm.IRModule.from_expr(tvm.relay.build_module.bind_params_by_name(mod["main"], params))
    (tmp_path / "net.json").write_text(tvm.ir.save_json(bound))
    found, found_params = read_model(tmp_path / "net.json")
    tvm.ir.assert_structural_equal(found, tvm.relay.transform.InferType()(bound))
    assert found_params == {}


def test_a_function_becomes_a_module(branching, tmp_path):
    mod, _ = branching
    (tmp_path / "net.json").write_text(tvm.ir.save_json(mod["main"]))
    found, _ = read_model(tmp_path / "net.json")
    assert isinstance(found, tvm.IRModule)


HEADER = '#[version = "0.0.5"]\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.bin", b"", r"net\.bin does not say what it is"),
        ("net.json", b"hello", r"net\.json is not what tvm\.ir\.save_json writes"),
        ("net.json", b"{}", r"net\.json is not what tvm\.ir\.save_json writes"),
        ("net.json", b"[1]", r"net\.json is not what tvm\.ir\.save_json writes"),
        ("net.json", b"\xff\xfe", r"net\.json is no text"),
        ("net.relay", b"hello", r"line 1, column 1: expected text format semantic version"),
        (
            "net.relay",
            (HEADER + "def @main(%x: Tensor[(1,2), float32]) { foo(%x) }").encode(),
            r"line 2, column \d+: operator `foo` not found",
        ),
    ],
)
def test_a_malformed_model_is_named(name, content, message, tmp_path, capfd):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        read_model(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_json_of_something_else_is_named(tmp_path):
    (tmp_path / "net.json").write_text(tvm.ir.save_json(tvm.relay.const(1.0)))
    with pytest.raises(ModelError, match=r"holds a Constant"):
        read_model(tmp_path / "net.json")


@pytest.mark.parametrize("name", ["net.params", "net.npz"])
@pytest.mark.parametrize("content", [b"", b"hello" * 20, b"PK\x03\x04"])
def test_malformed_parameters_are_named(name, content, branching, tmp_path):
    (tmp_path / "net.json").write_text(tvm.ir.save_json(branching[0]))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=name) as caught:
        read_model(tmp_path / "net.json", tmp_path / name)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_are_named(branching, tmp_path):
    (tmp_path / "net.json").write_text(tvm.ir.save_json(branching[0]))
    with pytest.raises(ModelError, match=r"cannot read .*other\.json"):
        read_model(tmp_path / "other.json")
    with pytest.raises(ModelError, match=r"cannot read .*net\.params"):
        read_model(tmp_path / "net.json", tmp_path / "net.params")
