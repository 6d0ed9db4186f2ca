from __future__ import annotations

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.models import MODEL_NAMES, by_name, nasnet_small, squeezenet


def test_every_name_leads_to_a_function():
    for name in MODEL_NAMES:
        assert callable(by_name(name))


def test_names_may_be_written_with_hyphens():
    assert by_name("squeezenet") is squeezenet
    assert by_name("nasnet-small") is nasnet_small


def test_the_larger_small_nasnet_has_44_filters_at_28():
    module, _ = by_name("nasnet_small_c44")(batch_size=2)
    relu = module["main"].body.args[0]
    assert [int(extent) for extent in relu.checked_type.shape] == [2, 220, 28, 28]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        OptionError,
        match=r"no network named 'resnet'; choose one of bert_base, dcgan, densenet_121,",
    ):
        by_name("resnet")
    with pytest.raises(OptionError, match=r"; did you mean 'nasnet_small'\?$"):
        by_name("nasnett-small")


@pytest.mark.parametrize(
    ("name", "small", "features"),
    [
        ("densenet_121", {"image_size": 32}, (1000,)),
        ("googlenet", {"image_size": 32}, (1000,)),
        ("inception_v3", {"image_size": 75}, (2048, 1, 1)),
        ("mobilenet_v2", {"image_size": 32}, (1000,)),
        ("mobilenet_v3_large", {"image_size": 32}, (1000,)),
        pytest.param(
            "nasnet_large",
            {"image_size": 33, "filters": 8, "normal_cells": 1},
            (160, 1, 1),
            marks=pytest.mark.slow,
        ),
        ("randwire_small", {}, (64, 1, 1)),
        ("resnet_50", {"image_size": 32}, (1000,)),
        ("squeezenet", {"image_size": 29}, (1000, 1, 1)),
        ("unet", {"image_size": 32}, (1, 32, 32)),
    ],
)
def test_batch_size_reaches_the_output(name, small, features):
    module, _ = by_name(name)(batch_size=3, **small)
    assert tuple(map(int, module["main"].ret_type.shape)) == (3, *features)


@pytest.mark.parametrize(
    ("name", "least"),
    [("densenet_121", 29), ("googlenet", 15), ("inception_v3", 75), ("squeezenet", 29)],
)
def test_a_smaller_image_is_refused(name, least):
    by_name(name)(image_size=least)
    with pytest.raises(OptionError, match="larger image"):
        by_name(name)(image_size=least - 1)
