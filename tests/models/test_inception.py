from __future__ import annotations

import pytest

from tests.models.count import count
from tvm_ios.models import inception_v3


def test_totals_are_the_published_ones():
    totals = count(*inception_v3())
    assert totals.units == 119
    assert round(totals.published_operations / 1e9, 3) == 5.786
    assert round(totals.parameters / 1e6, 3) == 21.768


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    def forward(layers, image):
        def chain(name, value, length, last_stride=1):
            for number in range(1, length + 1):
                halves = last_stride == 2 and number == length
                options = {"stride": 2, "padding": 0} if halves else {}
                value = layers.conv_relu(f"{name}.conv{number}", value, **options)
            return value

        value = layers.conv_relu("conv1", image, stride=2, padding=0)
        value = layers.conv_relu("conv2", value, padding=0)
        value = layers.max_pool(layers.conv_relu("conv3", value))
        value = layers.conv_relu("conv5", layers.conv_relu("conv4", value), padding=0)
        value = layers.max_pool(value)
        for name, lengths in (
            [(f"a{number}", (1, 2, 3)) for number in (1, 2, 3)]
            + [("b", (1, 3))]
            + [(f"c{number}", (1, 3, 5)) for number in (1, 2, 3, 4)]
            + [("d", (2, 4))]
        ):
            halving = name in ("b", "d")
            branches = [
                chain(f"{name}.b{index}", value, length, last_stride=2 if halving else 1)
                for index, length in enumerate(lengths)
            ]
            if halving:
                branches.append(layers.max_pool(value))
            else:
                branches.append(chain(f"{name}.b3", layers.avg_pool(value), 1))
            value = layers.concat(*branches)
        for name in ("e1", "e2"):
            forks = [(f"{name}.b1", 1), (f"{name}.b2", 2)]
            branches = [chain(f"{name}.b0", value, 1)]
            for branch, length in forks:
                fork = chain(branch, value, length)
                branches += [chain(f"{branch}.{side}", fork, 1) for side in ("row", "column")]
            branches.append(chain(f"{name}.b3", layers.avg_pool(value), 1))
            value = layers.concat(*branches)
        return layers.global_average(value)

    compare_with_numpy(inception_v3(image_size=75), forward)
