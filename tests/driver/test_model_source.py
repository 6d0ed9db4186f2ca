"""Models as users name them."""

from __future__ import annotations

import pytest
import tvm

from tvm_ios.driver.model_source import ModelSource
from tvm_ios.errors import ModelError, OptionError


def test_modules_pairs_and_files_are_models(fork, tmp_path):
    mod, params = fork
    bare = ModelSource.of(mod)
    assert (bare.name, bare.mod, bare.params) == ("model", mod, {})
    assert ModelSource.of(mod, params).params is params
    assert ModelSource.of((mod, params)).params is params
    path = tmp_path / "my.net.json"
    path.write_text(tvm.ir.save_json(mod))
    beside = tmp_path / "net.params"
    beside.write_bytes(tvm.runtime.save_param_dict(params))
    read = ModelSource.of(path, beside)
    assert read.name == "my.net"
    assert set(read.params) == set(params)
    assert tvm.ir.structural_equal(read.mod, mod)


def test_networks_have_names_and_weights_of_their_own():
    found = ModelSource.of("nasnet-small")
    assert found.name == "nasnet-small"
    assert found.params
    with pytest.raises(OptionError, match="nasnet-small has weights of its own"):
        ModelSource.of("nasnet-small", "x.params")


def test_what_is_no_model_is_refused(fork):
    with pytest.raises(OptionError, match="a pair with parameters; leave out params"):
        ModelSource.of(fork, fork[1])
    with pytest.raises(ModelError, match="the model is a tuple; give a Relay module"):
        ModelSource.of(("squeezenet", {}))
