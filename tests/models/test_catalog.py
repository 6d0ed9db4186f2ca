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
