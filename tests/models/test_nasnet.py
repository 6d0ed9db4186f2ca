from __future__ import annotations

import pytest

from tests.models.count import count
from tvm_ios.errors import OptionError
from tvm_ios.models import nasnet_large, nasnet_small


@pytest.mark.slow
def test_totals_are_the_published_ones():
    totals = count(*nasnet_large())
    assert totals.units == 374
    assert round(totals.published_operations / 1e9, 3) == 23.120
    assert round(totals.parameters / 1e6, 3) == 79.671


def test_small_network_is_a_stem_four_cells_and_a_tail():
    assert count(*nasnet_small()).units == 1 + 4 * 16 + 2


@pytest.mark.parametrize("options", [{"filters": 6}, {"filters": 0}, {"normal_cells": 0}])
def test_large_network_refuses_unfit_numbers(options):
    with pytest.raises(OptionError, match="nasnet_large"):
        nasnet_large(**options)


@pytest.mark.parametrize("options", [{"filters": 0}, {"num_cells": 0}])
def test_small_network_refuses_unfit_numbers(options):
    with pytest.raises(OptionError, match="nasnet_small"):
        nasnet_small(**options)


def separable(layers, name, value, stride=1):
    value = layers.relu_sep_conv(f"{name}.0", value, stride=stride)
    return layers.relu_sep_conv(f"{name}.1", value)


def normal_cell(layers, name, current, previous):
    left = layers.relu_conv(f"{name}.left", previous)
    right = layers.relu_conv(f"{name}.right", current)
    return layers.concat(
        separable(layers, f"{name}.sep5_right", right)
        + separable(layers, f"{name}.sep3_left0", left),
        separable(layers, f"{name}.sep5_left", left)
        + separable(layers, f"{name}.sep3_left1", left),
        layers.avg_pool(right) + left,
        2 * layers.avg_pool(left),
        separable(layers, f"{name}.sep3_right", right) + right,
    )


def first_cell(layers, name, current, previous):
    left = layers.concat(
        layers.relu_conv(f"{name}.left0", previous, stride=2),
        layers.relu_conv(f"{name}.left1", previous, stride=2),
    )
    right = layers.relu_conv(f"{name}.right", current)
    return layers.concat(
        left,
        separable(layers, f"{name}.sep5_right", right)
        + separable(layers, f"{name}.sep3_right0", right),
        separable(layers, f"{name}.sep5_left", left) + separable(layers, f"{name}.sep3_left", left),
        layers.avg_pool(right) + left,
        2 * layers.avg_pool(left),
        separable(layers, f"{name}.sep3_right1", right) + right,
    )


def reduce(layers, name, narrow, wide, first_stem=False):
    def strided(label, value):
        return separable(layers, f"{name}.{label}", value, stride=2)

    pooled = layers.max_pool(narrow, padding=1)
    sum0 = strided("sep5_narrow", narrow) + strided("sep7_wide0", wide)
    sum1 = pooled + strided("sep7_wide1", wide)
    return layers.concat(
        sum1,
        layers.avg_pool(narrow, stride=2) + strided("sep5_wide", wide),
        layers.avg_pool(sum0) + (sum0 if first_stem else sum1),
        separable(layers, f"{name}.sep3_sum0", sum0) + pooled,
    )


def reduction_cell(layers, name, current, previous):
    left = layers.relu_conv(f"{name}.left", previous)
    right = layers.relu_conv(f"{name}.right", current)
    return reduce(layers, name, right, left)


@pytest.mark.slow
def test_small_network_agrees_with_numpy(compare_with_numpy):
    def forward(layers, image):
        stem = layers.conv("conv0", image, stride=2)
        first = normal_cell(layers, "cell1", stem, stem)
        second = normal_cell(layers, "cell2", first, stem)
        return layers.global_average(layers.relu(second))

    compare_with_numpy(nasnet_small(batch_size=2, filters=4, size=5, num_cells=2), forward)


@pytest.mark.slow
@pytest.mark.full
def test_large_network_agrees_with_numpy(compare_with_numpy):
    def forward(layers, image):
        v1 = layers.conv("conv0", image, stride=2, padding=0)
        v2 = reduce(layers, "stem0", layers.relu_conv("stem0.left", v1), v1, first_stem=True)
        right = layers.relu_conv("stem1.right0", v1, stride=2)
        right += layers.relu_conv("stem1.right1", v1, stride=2)
        v3 = reduce(layers, "stem1", layers.relu_conv("stem1.left", v2), right)
        v4 = first_cell(layers, "group1.first", v3, v2)
        v5 = normal_cell(layers, "group1.normal1", v4, v3)
        v6 = normal_cell(layers, "group1.normal2", v5, v4)
        v7 = reduction_cell(layers, "group2.reduction", v6, v5)
        v8 = first_cell(layers, "group2.first", v7, v5)
        v9 = normal_cell(layers, "group2.normal1", v8, v7)
        v10 = normal_cell(layers, "group2.normal2", v9, v8)
        v11 = reduction_cell(layers, "group3.reduction", v10, v9)
        v12 = first_cell(layers, "group3.first", v11, v9)
        v13 = normal_cell(layers, "group3.normal1", v12, v11)
        v14 = normal_cell(layers, "group3.normal2", v13, v12)
        return layers.global_average(layers.relu(v14))

    network = nasnet_large(image_size=43, stem_channels=6, filters=8, normal_cells=2)
    compare_with_numpy(network, forward)
