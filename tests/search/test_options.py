"""Options nobody can honour are refused by name."""

from __future__ import annotations

import pytest

from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError
from tvm_ios.search.options import SearchOptions


def test_defaults_are_the_papers():
    options = SearchOptions()
    assert options.strategies == frozenset(Strategy)
    assert (options.max_group_size, options.max_num_groups) == (3, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_group_size": -1}, "max_group_size is -1.*0 means no limit"),
        ({"max_num_groups": -3}, "max_num_groups is -3.*0 means no limit"),
        ({"max_group_size": 1.5}, "max_group_size is 1.5"),
        ({"max_num_groups": True}, "max_num_groups is True"),
        ({"max_block_size": 0}, "max_block_size is 0; give a whole number from 1"),
        ({"max_block_size": 1001}, "max_block_size is 1001"),
        ({"max_block_states": 1}, "max_block_states is 1"),
        ({"max_block_transitions": 0}, "max_block_transitions is 0"),
        ({"max_chain_size": 0}, "max_chain_size is 0; give a whole number from 1"),
        ({"bound_margin_percent": 101}, "bound_margin_percent is 101"),
        ({"strategies": frozenset()}, "strategies is frozenset()"),
        ({"strategies": {"merge"}}, "strategies is {'merge'}"),
        ({"pad_merged_kernels": "no"}, "pad_merged_kernels is 'no'; give True or False"),
        ({"endings": "complete"}, "endings is 'complete'"),
    ],
)
def test_refused(change, message):
    with pytest.raises(OptionError, match=message.replace("(", r"\(").replace(")", r"\)")):
        SearchOptions(**change)
