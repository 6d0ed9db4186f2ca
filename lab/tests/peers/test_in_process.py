"""onnxruntime beside our models in the race of the demo."""

from __future__ import annotations

import pytest

from tvm_ios.driver.races.peers import installed_peers
from tvm_ios.models import dcgan, nasnet_small


def test_onnxruntime_runs_a_network_on_one_thread_and_on_all():
    pytest.importorskip("onnxruntime")
    network = nasnet_small(size=8, filters=8, num_cells=1)
    peers = installed_peers(*network, lanes=2)
    assert [peer.name for peer in peers] == ["onnxruntime, 1 thread", "onnxruntime, 2 threads"]
    assert all(peer.explanation.startswith("version ") for peer in peers)
    assert all(0 < peer.time_ns(1) < 10**9 for peer in peers)


def test_a_network_that_nobody_can_describe_has_no_peers(caplog):
    pytest.importorskip("onnxruntime")
    mod, params = dcgan()
    mod["main"] = type(mod["main"])(mod["main"].params, mod["main"].params[0])
    assert installed_peers(mod, params, lanes=1) == []
    assert "onnxruntime does not race: demo: the output is not that of an operator" in caplog.text
