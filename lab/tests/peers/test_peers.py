"""Networks cross to the peers, and results are computed; no peer is needed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.testing import resnet_3d

from tests.models.count import count
from tests.stock import stock_outputs
from tvm_ios.models import bert_base, by_name, dcgan, resnet3d_18
from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling
from tvm_ios_lab.places import LAB


def small_network():
    net = NetworkBuilder(batch_size=1, channels=3, height=9, width=9, seed=0)
    value = net.convolution("wide", net.input, 8, kernel=(3, 3), stride=2, padding=(1, 1))
    other = net.relu_separable_convolution("separable", [value], 8)
    pooled = net.pool("average", value, Pooling.AVERAGE, padding=1)
    joined = net.combine("join", [[value, other], [pooled]])
    return net.finish(net.global_average("mean", joined))


def small_case(folder):
    from tvm_ios_lab.peers.describe import describe
    from tvm_ios_lab.peers.network import Case, write_case

    module, params = small_network()
    case = Case(
        network=describe(module, name="small"),
        weights={name: value.numpy() for name, value in params.items()},
        input=np.ones((1, 3, 9, 9), dtype="float32"),
        reference=np.ones((1, 16, 1, 1), dtype="float32"),
    )
    write_case(case, folder)
    return case


def test_description_has_every_operator():
    from tvm_ios_lab.peers.describe import describe

    network = describe(small_network()[0], name="small")
    # One line a node: operator, output, inputs, shape.
    lines = [
        f"{node.operator.value} {node.output} <- {' '.join(node.inputs)} {node.shape}"
        for node in network.nodes
    ]
    assert lines == [
        "convolution t0 <- data (1, 8, 5, 5)",
        "relu t1 <- t0 (1, 8, 5, 5)",
        "relu t2 <- t1 (1, 8, 5, 5)",
        "convolution t3 <- t2 (1, 8, 5, 5)",
        "convolution t4 <- t3 (1, 8, 5, 5)",
        "add t5 <- t1 t4 (1, 8, 5, 5)",
        "average_pool t6 <- t1 (1, 8, 5, 5)",
        "concatenate t7 <- t5 t6 (1, 16, 5, 5)",
        "global_average_pool t8 <- t7 (1, 16, 1, 1)",
    ]
    wide, _, _, depthwise, pointwise, _, pool, *_ = network.nodes
    assert (wide.kernel, wide.strides, wide.padding) == ((3, 3), (2, 2), (1, 1))
    assert (wide.weight, wide.bias) == ("wide.weight", "wide.bias")
    assert (depthwise.groups, depthwise.kernel) == (8, (3, 3))
    assert (pointwise.groups, pointwise.padding) == (1, (0, 0))
    assert (pool.kernel, pool.padding) == ((3, 3), (1, 1))
    assert network.output == "t8"


def test_description_has_the_operators_of_later_networks():
    from tvm_ios_lab.peers.describe import describe

    net = NetworkBuilder(batch_size=2, channels=4, height=7, width=7, seed=0)
    value = net.convolution("swish", net.input, 6, activation=Activation.HARD_SWISH)
    value = net.convolution("six", value, 6, activation=Activation.RELU6)
    means = net.global_average("means", value)
    gates = net.convolution("gates", means, 6, activation=Activation.HARD_SIGMOID)
    value = net.scale_shift("normal", net.gate("gate", value, gates))
    value = net.pool("pool", value, Pooling.MAX, kernel=2, stride=2, round_up=True)
    value = net.transposed_convolution("raise", value, 5)
    flat = net.flatten("flat", value)
    module, params = net.finish(net.dense("dense", flat, 3, activation=Activation.GELU))
    network = describe(module, name="later", batch_size=2)
    assert [f"{node.operator.value} {' '.join(node.inputs)}" for node in network.nodes] == [
        "convolution data",
        "hard_swish t0",
        "convolution t1",
        "relu6 t2",
        "global_average_pool t3",
        "convolution t4",
        "hard_sigmoid t5",
        "multiply t3 t6",
        "scale_shift t7",
        "relu t8",
        "max_pool t9",
        "transposed_convolution t10",
        "flatten t11",
        "dense t12",
        "gelu t13",
    ]
    normal, _, pool, raised, _, dense, _ = network.nodes[8:]
    assert (normal.weight, normal.bias) == ("normal.scale", "normal.shift")
    assert (pool.round_up, pool.shape) == (True, (2, 6, 4, 4))
    assert (raised.kernel, raised.strides, raised.shape) == ((2, 2), (2, 2), (2, 5, 8, 8))
    assert (dense.weight, dense.bias, dense.shape) == ("dense.weight", "dense.bias", (2, 3))
    assert network.macs == count(module, params).macs


def small_gan():
    return dcgan(features=8)


def small_clip():
    """CLIP with all layers, an eighth as wide: TVM folds weights of three dimensions for half a
    minute."""
    wide = resnet_3d.resnet

    def narrow(*, filter_list, **options):
        return wide(filter_list=[filters // 8 for filters in filter_list], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resnet_3d, "resnet", narrow)
        return resnet3d_18(frames=2, image_size=34)


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    ("make", "kinds", "last"),
    [
        (small_gan, {"dense": 1, "transposed_convolution": 4, "scale_shift": 3}, "tanh"),
        pytest.param(
            small_clip,
            {"convolution": 21, "scale_shift": 9, "global_average_pool": 1},
            "softmax",
            marks=pytest.mark.full,
        ),
    ],
    ids=["dcgan", "resnet3d_18"],
)
def test_batch_normalisation_is_folded_where_a_convolution_is_beside_it(
    make, kinds, last, reference_build
):
    from tvm_ios_lab.peers.describe import describe
    from tvm_ios_lab.peers.normal_form import normal_form

    module, params = make()
    described, weights = normal_form(module, params)
    network = describe(described, name="folded")
    found = Counter(node.operator.value for node in network.nodes)
    assert kinds == {kind: found[kind] for kind in kinds}
    assert network.nodes[-1].operator.value == last
    # Every convolution once: none was doubled for its bias.
    assert network.macs == count(module, params).macs
    image = np.random.default_rng(0).standard_normal(network.input_shape, dtype=np.float32)

    def run(mod, values):
        built = reference_build(mod, dict(values), "llvm -opt-level=0", opt_level=0)
        return stock_outputs(built, data=image)[0]

    np.testing.assert_allclose(run(described, weights), run(module, params), rtol=2e-3, atol=1e-5)


def test_models_without_normalisation_are_described_as_they_are():
    from tvm_ios_lab.peers.normal_form import normal_form

    module, params = small_network()
    assert normal_form(module, params) == (module, params)


@pytest.mark.slow(1)
def test_description_of_an_encoder_has_attention_in_one_piece():
    from tvm_ios_lab.peers.describe import describe
    from tvm_ios_lab.peers.network import Operator

    module, params = bert_base(batch_size=2, sequence=4, layers=1)
    network = describe(module, name="encoder", batch_size=2)
    assert (network.input, network.input_shape, network.input_dtype) == ("tokens", (2, 4), "int64")
    assert network.reads_tokens
    kinds = [node.operator.value for node in network.nodes]
    assert kinds == [
        *("embedding", "add", "add", "reshape", "layer_norm"),
        *("dense", "dense", "dense", "attention", "dense", "add", "layer_norm"),
        *("dense", "gelu", "dense", "add", "layer_norm", "reshape"),
    ]
    (attention,) = [node for node in network.nodes if node.operator is Operator.ATTENTION]
    read = {node.output: node.weight for node in network.nodes}
    assert [read[name] for name in attention.inputs] == [
        f"layer1.{label}.weight" for label in ("query", "key", "value")
    ]
    assert (attention.tokens, attention.heads, attention.shape) == (4, 12, (8, 768))
    norm = network.nodes[4]
    assert (norm.weight, norm.bias, norm.epsilon) == (
        "embeddings.norm.scale",
        "embeddings.norm.shift",
        1e-12,
    )
    assert network.macs == count(module, params).macs
    assert read_again(network) == network


def read_again(network):
    from tvm_ios_lab.peers.network import Network

    return Network.from_json(network.to_json())


@pytest.mark.parametrize("home", ["onnx_file", "torch_peer"])
def test_every_operator_is_known_to_the_peers(home):
    from tvm_ios_lab.peers.network import Operator

    text = (LAB / "tvm_ios_lab" / "peers" / f"{home}.py").read_text()
    assert [each.name for each in Operator if f"Operator.{each.name}" not in text] == []


def test_constants_that_are_not_those_of_a_known_activation_are_refused():
    data = relay.var("data", shape=(1, 4, 8, 8))
    assert "Constant" in refused(relay.clip(relay.add(data, relay.const(2.0)), 0.0, 6.0))
    assert "a_max 5.0" in refused(relay.clip(data, 0.0, 5.0))


@pytest.mark.parametrize(
    "name",
    [
        *("randwire_small", "nasnet_small", "squeezenet", "unet"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("inception_v3", "resnet_50", "mobilenet_v3_large", "googlenet")
        ),
    ],
)
@pytest.mark.slow
def test_description_counts_the_networks_arithmetic(name):
    from tvm_ios_lab.peers.describe import describe

    module, params = by_name(name)()
    assert describe(module, name=name).macs == count(module, params).macs


def test_networks_are_those_of_the_catalog():
    from tvm_ios.models import MODEL_NAMES
    from tvm_ios_lab.peers.describe import describe
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.network import NETWORKS

    assert sorted(NETWORKS) == sorted(MODEL_NAMES)
    module, _ = by_name("dcgan")()
    with pytest.raises(PeerError, match="describe.py"):
        describe(module, name="dcgan")


def refused(body):
    from tvm_ios_lab.peers.describe import describe
    from tvm_ios_lab.peers.errors import PeerError

    module = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    with pytest.raises(PeerError) as caught:
        describe(module, name="odd")
    return str(caught.value)


def test_what_the_description_has_no_word_for_is_refused():
    data = relay.var("data", shape=(1, 4, 8, 8))
    weight, bias = relay.var("weight", shape=(4, 4, 3, 3)), relay.var("bias", shape=(4,))
    assert "nn.softmax" in refused(relay.nn.softmax(data))
    lopsided = relay.nn.conv2d(data, weight, padding=(0, 1, 1, 0), channels=4, kernel_size=(3, 3))
    assert "[0, 1, 1, 0]" in refused(relay.nn.bias_add(lopsided, bias))
    dilated = relay.nn.conv2d(data, weight, dilation=2, channels=4, kernel_size=(3, 3))
    assert "dilation (2, 2)" in refused(relay.nn.bias_add(dilated, bias))
    assert "no input" in refused(
        relay.nn.relu(relay.nn.conv2d(data, weight, channels=4, kernel_size=(3, 3)))
    )
    assert "count_include_pad" in refused(relay.nn.avg_pool2d(data, (3, 3), padding=(1, 1)))


def test_case_is_read_as_it_was_written(tmp_path):
    from tvm_ios_lab.peers.network import read_case

    written = small_case(tmp_path)
    found = read_case(tmp_path)
    assert found.network == written.network
    assert found.weights.keys() == written.weights.keys()
    for name, value in written.weights.items():
        np.testing.assert_array_equal(found.weights[name], value)
    np.testing.assert_array_equal(found.input, written.input)
    np.testing.assert_array_equal(found.reference, written.reference)


def test_unreadable_cases_say_what_to_do(tmp_path):
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.network import Network, read_case

    with pytest.raises(PeerError, match="python -m tvm_ios_lab.peers.export"):
        read_case(tmp_path / "nowhere")
    small_case(tmp_path)
    record = json.loads((tmp_path / "network.json").read_text())
    record["nodes"][0]["operator"] = "fft"
    with pytest.raises(PeerError, match="'fft'"):
        Network.from_json(json.dumps(record))


def test_relative_error_is_over_the_largest_value():
    from tvm_ios_lab.peers.network import relative_error

    reference = np.array([4.0, -8.0], dtype="float32")
    assert relative_error(reference, reference) == 0
    assert relative_error(reference + np.float32(0.5), reference) == 0.5 / 8
    assert relative_error(reference * np.float32("nan"), reference) == math.inf
    assert relative_error(reference[:1], reference) == math.inf


def test_disagreement_names_network_and_peer():
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.measure import require_agreement
    from tvm_ios_lab.peers.peer import Contestant, Peer

    openvino, torch = Contestant(Peer.OPENVINO, 1), Contestant(Peer.TORCH, 2)
    require_agreement("squeezenet", {openvino: 1e-6})
    with pytest.raises(PeerError, match=r"squeezenet: .*torch, 2 threads by 0.02") as caught:
        require_agreement("squeezenet", {openvino: 1e-6, torch: 0.02})
    assert "openvino" not in str(caught.value)
    with pytest.raises(PeerError):
        require_agreement("squeezenet", {torch: math.nan})


def test_errors_in_bfloat16_are_told_unless_outputs_are_no_numbers():
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.measure import require_agreement
    from tvm_ios_lab.peers.peer import Peer, contestants

    (low,) = contestants((Peer.OPENVINO_DEFAULT,), 2, one_thread=False)
    require_agreement("inception_v4", {low: 0.16})
    require_agreement("resnet_50_dynamic", {replace(low, precision="float32"): 0.16}, exact=False)
    with pytest.raises(PeerError, match="openvino-default, 2 threads by inf"):
        require_agreement("inception_v4", {low: math.inf})


def test_floor_is_two_operations_a_multiply_accumulate():
    from tvm_ios_lab.peers.peak import floor_ns

    assert floor_ns(1_000_000, 100.0) == 20_000


def test_peak_is_measured_on_each_core_and_all():
    from tvm_ios_lab.peers.peak import measure_peak

    peak = measure_peak(samples=1)
    assert len(peak.of_each_core) == len(os.sched_getaffinity(0))
    assert min(*peak.of_each_core, peak.of_all_cores) > 0
    assert peak.vector_bits in (128, 256, 512)


def test_networks_are_named_with_their_batch():
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.subject import Subject

    assert Subject.parse("squeezenet") == Subject("squeezenet", 1)
    assert Subject.parse("resnet_50:8").stem == "resnet_50_bs8"
    for text in ("resnet_50:0", "resnet_50:x"):
        with pytest.raises(PeerError, match="resnet_50"):
            Subject.parse(text)


def test_contestants_have_one_thread_or_all():
    from tvm_ios_lab.peers.peer import Peer, contestants

    some = (Peer.ONNXRUNTIME, Peer.ONNXRUNTIME_PARALLEL)
    assert [who.name for who in contestants(some, 2)] == [
        "onnxruntime, 1 thread",
        "onnxruntime, 2 threads",
        "onnxruntime parallel, 2 threads",
    ]
    assert [who.name for who in contestants(some, 1)] == ["onnxruntime, 1 thread"]


def test_every_peer_has_a_home():
    from tvm_ios_lab.peers.peer import _HOMES, Peer

    assert _HOMES.keys() == set(Peer)
    for home in _HOMES.values():
        assert (LAB / "tvm_ios_lab" / "peers" / f"{home}.py").exists()


@pytest.mark.skipif(find_spec("openvino") is not None, reason="openvino is installed here")
def test_missing_peer_names_itself_and_the_command(tmp_path):
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.peer import Contestant, Peer
    from tvm_ios_lab.peers.worker import Worker

    small_case(tmp_path)
    worker = Worker(Contestant(Peer.OPENVINO, 1), tmp_path)
    with pytest.raises(PeerError, match=r"openvino, 1 thread: .*setup\.sh"):
        worker.prepared(60)
    worker.close()


def test_killed_worker_is_named(tmp_path):
    from tvm_ios_lab.peers.errors import PeerError
    from tvm_ios_lab.peers.peer import Contestant, Peer
    from tvm_ios_lab.peers.worker import Worker

    worker = Worker(Contestant(Peer.TORCH, 1), tmp_path)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(PeerError, match=r"torch, 1 thread: its process ended with -9"):
        worker.prepared(60)
    worker.close()


def test_table_without_results_names_the_command(tmp_path, capsys):
    from tvm_ios_lab.peers.table import main

    assert main(["--folder", str(tmp_path)]) == 1
    assert "python -m tvm_ios_lab.peers.measure" in capsys.readouterr().err


def test_a_network_is_written_as_onnx_where_that_is_missing_or_old(tmp_path):
    from tvm_ios_lab.peers.onnx_file import current_onnx

    case = small_case(tmp_path)
    path = current_onnx(case, tmp_path)
    written = path.stat().st_mtime_ns
    assert current_onnx(case, tmp_path).stat().st_mtime_ns == written
    os.utime(path, (0, 0))
    assert current_onnx(case, tmp_path).stat().st_mtime_ns >= written


@pytest.mark.parametrize("arguments", [[], [".venv"]])
def test_setup_refuses_to_touch_the_projects_environment(arguments, tmp_path):
    script = LAB / "tvm_ios_lab" / "peers" / "setup.sh"
    done = subprocess.run(
        [str(script), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "folder" in done.stderr.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_exported_reference_is_what_optimised_tvm_computes(reference_build, tmp_path, monkeypatch):
    from tvm_ios_lab.peers import export
    from tvm_ios_lab.peers.network import read_case, relative_error

    # The fewest kernels, and few channels in them.
    monkeypatch.setattr(export, "by_name", lambda _: partial(dcgan, features=8))
    assert export.main(("--folder", str(tmp_path), "--networks", "dcgan")) == 0
    case = read_case(tmp_path / "dcgan_bs1")
    module, params = dcgan(features=8)
    built = reference_build(module, params, "llvm -opt-level=0")
    (found,), (of_nothing,) = (stock_outputs(built, data=case.input * n) for n in (1, 0))
    assert relative_error(found, case.reference) < 1e-4
    # The input shows: without it the output would be another one.
    assert relative_error(of_nothing, case.reference) > 0.4
