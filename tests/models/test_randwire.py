from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm

from tests.models.count import count
from tvm_ios.errors import OptionError
from tvm_ios.models import Wiring, randwire, randwire_small, watts_strogatz

PUBLISHED_EDGES = Path(__file__).parents[1] / "data" / "randwire_edges.json"
"""The four wirings of the published IOS (MIT licence), by its file names."""


def published_wirings() -> list[Wiring]:
    graphs = json.loads(PUBLISHED_EDGES.read_text())
    return [
        Wiring(num_nodes=graph["n"], edges=tuple((a, b) for a, b in graph["edges"]))
        for graph in sorted(graphs.values(), key=lambda graph: graph["block"])
    ]


@pytest.mark.slow
def test_totals_on_the_published_edges_are_the_published_ones():
    totals = count(*randwire(wirings=published_wirings()))
    # The published table has 120: it counts the one-node sum that ends the first stage.
    assert totals.units == 120 - 1
    assert round(totals.published_operations / 1e9, 3) == 8.067
    assert round(totals.parameters / 1e6, 3) == 60.668


@pytest.mark.slow
def test_generated_wirings_keep_the_published_size():
    totals = count(*randwire())
    assert totals.units in range(116, 121)
    assert abs(totals.published_operations / 8.067e9 - 1) < 0.01
    # Sources read half the channels, so parameters follow the number of sources.
    assert abs(totals.parameters / 60.668e6 - 1) < 0.06


def test_seed_decides_the_wiring():
    first, again, other = (randwire_small(seed=seed, channels=2, size=2)[0] for seed in (1, 1, 2))
    assert tvm.ir.structural_equal(first, again)
    assert not tvm.ir.structural_equal(first, other)


def test_nodes_of_the_small_network_have_the_requested_size():
    module, _ = randwire_small(channels=64, size=14)
    relu = module["main"].body.args[0]
    assert [int(extent) for extent in relu.checked_type.shape] == [1, 64, 14, 14]


@pytest.mark.parametrize("network", [randwire, randwire_small])
@pytest.mark.parametrize("channels", [0, 7])
def test_odd_channels_are_refused(network, channels):
    with pytest.raises(OptionError, match=f"channels is {channels}"):
        network(channels=channels)


def stage(layers, name, wiring, value):
    nodes = []
    for node in range(wiring.num_nodes):
        read = [nodes[a] for a, b in wiring.edges if b == node]
        operand, stride = (sum(read), 1) if read else (value, 2)
        nodes.append(layers.relu_sep_conv(f"{name}.node{node}", operand, stride=stride))
    return sum(nodes[sink] for sink in set(range(len(nodes))) - {a for a, _ in wiring.edges})


@pytest.mark.slow
def test_small_network_agrees_with_numpy(compare_with_numpy):
    wiring = watts_strogatz(9, seed=5)

    def forward(layers, image):
        value = stage(layers, "stage1", wiring, layers.conv("conv1", image, stride=2))
        return layers.global_average(layers.relu(value))

    network = randwire_small(batch_size=2, channels=4, size=5, wiring=wiring)
    compare_with_numpy(network, forward)


@pytest.mark.slow
@pytest.mark.full
def test_large_network_agrees_with_numpy(compare_with_numpy):
    wirings = published_wirings()

    def forward(layers, image):
        value = layers.conv("conv1", image, stride=2)
        for number, wiring in enumerate(wirings, start=1):
            value = stage(layers, f"stage{number}", wiring, value)
        return layers.global_average(layers.conv("conv2", layers.relu(value)))

    compare_with_numpy(randwire(image_size=64, channels=4, wirings=wirings), forward)
